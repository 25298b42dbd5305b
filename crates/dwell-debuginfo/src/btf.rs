//! The kernel's own description of its types (BTF), as D's types.
//!
//! As with a target's, structures that pointers lead to are only declared until they are asked for.
use std::collections::HashMap;
use std::fs;

use dwell_script::Keyword;
use dwell_script::types::{Member, Record, Type, TypeId, Types};

/// Where the kernel has it.
const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Bytes of a type without what follows it.
const TYPE_SIZE: usize = 12;
/// Types that contain each other deeper than this are cut off.
const MAX_DEPTH: u32 = 64;

/// Kinds of types, as the format numbers them.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const POINTER: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FORWARD: u32 = 7;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const PROTOTYPE: u32 = 13;
    pub(super) const VARIABLE: u32 = 14;
    pub(super) const SECTION: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECLARATION_TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
}

/// The kernel's types.
#[derive(Debug)]
pub(crate) struct Btf {
    data: Vec<u8>,
    strings: usize,
    /// Where each type begins; number 0 is `void`.
    starts: Vec<u32>,
}

/// Which of the script's types the kernel's are.
#[derive(Debug, Default)]
pub(crate) struct Met {
    known: HashMap<u32, TypeId>,
    /// What was only declared so far.
    pending: HashMap<TypeId, u32>,
}

/// One type.
#[derive(Clone, Copy)]
struct Raw<'b> {
    btf: &'b Btf,
    at: usize,
}

impl Btf {
    /// None where the kernel gives none.
    pub(crate) fn of_kernel() -> Option<Btf> {
        Btf::parse(fs::read(PATH).ok()?)
    }

    fn parse(data: Vec<u8>) -> Option<Btf> {
        let magic = u16::from_le_bytes(data.get(..2)?.try_into().ok()?);
        if magic != MAGIC {
            return None;
        }
        let header = |at| word(&data, at).map(|word| word as usize);
        let size = header(4)?;
        let (types, types_size, strings) = (header(8)?, header(12)?, header(16)?);
        let mut btf = Btf {
            strings: size.checked_add(strings)?,
            starts: vec![0],
            data,
        };
        let mut at = size.checked_add(types)?;
        let end = at.checked_add(types_size)?.min(btf.data.len());
        while at + TYPE_SIZE <= end {
            btf.starts.push(at as u32);
            at += TYPE_SIZE + Raw { btf: &btf, at }.more();
        }
        Some(btf)
    }

    fn raw(&self, id: u32) -> Option<Raw<'_>> {
        let at = *self.starts.get(id as usize).filter(|at| **at != 0)?;
        Some(Raw {
            btf: self,
            at: at as usize,
        })
    }

    fn text(&self, offset: u32) -> &str {
        let bytes = self.data.get(self.strings + offset as usize..);
        let bytes = bytes.unwrap_or_default();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(0);
        std::str::from_utf8(&bytes[..end]).unwrap_or_default()
    }

    fn find(&self, name: &str, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        (1..self.starts.len() as u32).find(|id| {
            let raw = self.raw(*id);
            raw.is_some_and(|raw| wanted(raw.kind()) && raw.name() == name)
        })
    }

    /// A type of the kernel by its name.
    pub(crate) fn type_named(
        &self,
        keyword: Option<Keyword>,
        name: &str,
        types: &mut Types,
        met: &mut Met,
    ) -> Option<TypeId> {
        let id = self.find(name, |kind| match keyword {
            None => matches!(kind, kind::TYPEDEF | kind::INT | kind::FLOAT),
            Some(Keyword::Struct) => kind == kind::STRUCT,
            Some(Keyword::Union) => kind == kind::UNION,
            Some(Keyword::Enum) => kind == kind::ENUM || kind == kind::ENUM64,
        })?;
        Some(self.reader(types, met).whole(id))
    }

    /// An enumerator of the kernel.
    pub(crate) fn constant(
        &self,
        name: &str,
        types: &mut Types,
        met: &mut Met,
    ) -> Option<(i64, TypeId)> {
        for id in 1..self.starts.len() as u32 {
            let Some(raw) = self.raw(id).filter(|raw| raw.is_enumeration()) else {
                continue;
            };
            if let Some((_, value)) = raw.enumerators().find(|(known, _)| *known == name) {
                return Some((value, self.reader(types, met).whole(id)));
            }
        }
        None
    }

    /// The types of a tracepoint's arguments.
    pub(crate) fn tracepoint(
        &self,
        name: &str,
        types: &mut Types,
        met: &mut Met,
    ) -> Option<Vec<TypeId>> {
        let id = self.find(&format!("btf_trace_{name}"), |kind| kind == kind::TYPEDEF)?;
        let pointer = self.raw(self.raw(id)?.other())?;
        let prototype = self.raw(pointer.other())?;
        if prototype.kind() != kind::PROTOTYPE {
            return None;
        }
        let mut reader = self.reader(types, met);
        // The first is the tracer's own.
        let ids = (1..prototype.count()).map(|n| prototype.word(TYPE_SIZE + 8 * n + 4));
        Some(ids.map(|id| reader.whole(id)).collect())
    }

    fn reader<'r>(&'r self, types: &'r mut Types, met: &'r mut Met) -> Reader<'r> {
        Reader {
            btf: self,
            types,
            met,
            depth: 0,
        }
    }
}

impl<'b> Raw<'b> {
    fn word(self, offset: usize) -> u32 {
        word(&self.btf.data, self.at + offset).unwrap_or(0)
    }

    fn name(self) -> &'b str {
        self.btf.text(self.word(0))
    }

    fn kind(self) -> u32 {
        self.word(4) >> 24 & 0x1f
    }

    fn flag(self) -> bool {
        self.word(4) >> 31 != 0
    }

    fn count(self) -> usize {
        (self.word(4) & 0xffff) as usize
    }

    /// Its size, or the number of the type that it is about.
    fn other(self) -> u32 {
        self.word(8)
    }

    /// Bytes that follow.
    fn more(self) -> usize {
        match self.kind() {
            kind::INT | kind::VARIABLE | kind::DECLARATION_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION | kind::SECTION | kind::ENUM64 => 12 * self.count(),
            kind::ENUM | kind::PROTOTYPE => 8 * self.count(),
            _ => 0,
        }
    }

    fn is_enumeration(self) -> bool {
        matches!(self.kind(), kind::ENUM | kind::ENUM64)
    }

    fn enumerators(self) -> impl Iterator<Item = (&'b str, i64)> {
        let wide = self.kind() == kind::ENUM64;
        let signed = self.flag();
        (0..self.count()).map(move |n| {
            let at = TYPE_SIZE + n * if wide { 12 } else { 8 };
            let low = self.word(at + 4);
            let value = match (wide, signed) {
                (true, _) => i64::from(low) | i64::from(self.word(at + 8)) << 32,
                (false, true) => i64::from(low as i32),
                (false, false) => i64::from(low),
            };
            (self.btf.text(self.word(at)), value)
        })
    }
}

/// Makes D's types.
struct Reader<'r> {
    btf: &'r Btf,
    types: &'r mut Types,
    met: &'r mut Met,
    depth: u32,
}

impl Reader<'_> {
    /// A type with its members.
    fn whole(&mut self, id: u32) -> TypeId {
        let mut ty = self.declared(id);
        let made = ty;
        loop {
            ty = match self.types.get(ty) {
                Type::Typedef { to, .. } => *to,
                Type::Array { of, .. } => *of,
                _ => break,
            };
        }
        if let Some(id) = self.met.pending.remove(&ty) {
            self.define(ty, id);
        }
        made
    }

    fn declared(&mut self, id: u32) -> TypeId {
        if let Some(known) = self.met.known.get(&id) {
            return *known;
        }
        let raw = self.btf.raw(id).filter(|_| self.depth < MAX_DEPTH);
        let Some(raw) = raw else {
            return self.types.add(Type::Void);
        };
        self.depth += 1;
        let ty = self.made(id, raw);
        self.depth -= 1;
        self.met.known.insert(id, ty);
        ty
    }

    fn made(&mut self, id: u32, raw: Raw<'_>) -> TypeId {
        let name: Box<str> = raw.name().into();
        let size = raw.other();
        let ty = match raw.kind() {
            kind::INT if matches!(size, 1 | 2 | 4 | 8) => Type::Int {
                name,
                size: size as u8,
                signed: raw.word(TYPE_SIZE) >> 24 & 1 != 0,
            },
            kind::INT => Type::Record(Record {
                keyword: "struct",
                name,
                size,
                members: Vec::new(),
            }),
            kind::FLOAT => Type::Float {
                name,
                size: size.min(16) as u8,
            },
            kind::POINTER => Type::Pointer(self.declared(raw.other())),
            kind::ARRAY => Type::Array {
                of: self.declared(raw.word(TYPE_SIZE)),
                count: raw.word(TYPE_SIZE + 8),
            },
            kind::STRUCT | kind::UNION => return self.record(id, raw),
            kind::ENUM | kind::ENUM64 => enumeration(raw),
            kind::FORWARD => Type::Incomplete {
                keyword: if raw.flag() { "union" } else { "struct" },
                name,
            },
            kind::TYPEDEF => Type::Typedef {
                name,
                to: self.declared(raw.other()),
            },
            kind::FUNCTION | kind::PROTOTYPE => Type::Function,
            kind::SECTION => Type::Void,
            // Qualifiers and tags.
            _ => return self.declared(raw.other()),
        };
        self.types.add(ty)
    }

    fn record(&mut self, id: u32, raw: Raw<'_>) -> TypeId {
        let keyword = keyword(raw);
        let is_named = !raw.name().is_empty();
        // No tag of a program has a line feed.
        let unique = || format!("\nkernel {id}");
        let name = match raw.name() {
            "" => unique().into(),
            name => name.into(),
        };
        let ty = self.types.add(Type::Incomplete { keyword, name });
        self.met.known.insert(id, ty);
        if is_named {
            self.met.pending.insert(ty, id);
        } else {
            self.define(ty, id);
        }
        ty
    }

    fn define(&mut self, ty: TypeId, id: u32) {
        let Some(raw) = self.btf.raw(id) else { return };
        let mut members = Vec::with_capacity(raw.count());
        for n in 0..raw.count() {
            let at = TYPE_SIZE + 12 * n;
            let place = raw.word(at + 8);
            let (offset_bits, bits) = match raw.flag() {
                true => (place & 0xff_ffff, (place >> 24) as u8),
                false => (place, 0),
            };
            members.push(Member {
                name: self.btf.text(raw.word(at)).into(),
                ty: self.whole(raw.word(at + 4)),
                offset_bits,
                bits: (bits != 0).then_some(bits),
            });
        }
        let record = Record {
            keyword: keyword(raw),
            name: raw.name().into(),
            size: raw.other(),
            members,
        };
        self.types.complete(ty, Type::Record(record));
    }
}

fn keyword(raw: Raw<'_>) -> &'static str {
    if raw.kind() == kind::UNION {
        "union"
    } else {
        "struct"
    }
}

fn enumeration(raw: Raw<'_>) -> Type {
    let size = match raw.other() {
        size @ (1 | 2 | 8) => size as u8,
        _ => 4,
    };
    let values = raw.enumerators().map(|(name, value)| (name.into(), value));
    Type::Enum {
        name: raw.name().into(),
        size,
        signed: raw.flag(),
        values: values.collect(),
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

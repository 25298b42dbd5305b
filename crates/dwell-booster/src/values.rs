//! What every relocation of every merged module comes to.
use crate::Refusal;
use crate::closure::Closure;
use crate::layout::Layout;
use crate::module::{Module, Relocation, Symbol};
use crate::scope::{Found, Use, resolve};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};

/// What goes into a place of 8 bytes (16 for a descriptor).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// (load bias + image address)
    Image(u64),
    /// The number itself.
    Constant(u64),
    /// What the resolver at this image address returns.
    Indirect(u64),
    /// A descriptor of the thread-local variable at this offset of the merged block.
    TlsDescriptor(u64),
    /// Left to the loader: a symbol of a library that stays.
    Import {
        /// Type of the relocation.
        kind: u32,
        /// Index into [`Values::imports`].
        import: usize,
        addend: i64,
    },
}

/// A symbol that a library which stays defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub name: Vec<u8>,
    /// The version, and the library that defines it.
    pub version: Option<(String, String)>,
}

/// The program's copy of a library's variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyOf {
    /// Where the program has it, image address.
    pub to: u64,
    /// Where the library's file has it.
    pub from: Found,
    pub len: u64,
}

/// The outcome of all relocations.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// By image address of the place.
    pub places: BTreeMap<u64, Value>,
    pub imports: Vec<Import>,
    pub copies: Vec<CopyOf>,
    /// Symbol lookups that the loader no longer makes.
    pub lookups_saved: usize,
    import_of: BTreeMap<Import, usize>,
}

impl Values {
    /// Resolves everything, in the original order of lookup.
    pub(crate) fn of(closure: &Closure<'_>, layout: &Layout) -> Result<Self, Refusal> {
        let mut values = Values::default();
        for (index, base) in layout.merged() {
            let module = &closure.modules[index];
            let found = closure.relocations(index)?;
            let resolver = Resolver {
                closure,
                layout,
                index,
                base,
                module,
                with_offset: offsets_given(found),
            };
            for relocation in found {
                resolver.put(relocation, &mut values)?;
            }
        }
        values.copy_places(closure, layout);
        let program = &closure.modules[0];
        let mut places = values.places.keys().zip(values.places.keys().skip(1));
        if places.any(|(a, b)| b - a < 8) {
            return Err(Refusal::damaged(&program.path, "two relocations overlap"));
        }
        Ok(values)
    }

    pub(crate) fn import(&mut self, import: Import) -> usize {
        let next = self.imports.len();
        let index = *self.import_of.entry(import.clone()).or_insert(next);
        if index == next {
            self.imports.push(import);
        }
        index
    }

    /// Pointers within a copied variable are copied with it.
    fn copy_places(&mut self, closure: &Closure<'_>, layout: &Layout) {
        for copy in &self.copies {
            let from = copy_source(copy, closure, layout);
            let inside: Vec<(u64, Value)> = self
                .places
                .range(from..from + copy.len)
                .map(|(&at, &value)| (copy.to + (at - from), value))
                .collect();
            self.places.extend(inside);
        }
    }
}

/// Image address of a copied variable's original.
pub(crate) fn copy_source(copy: &CopyOf, closure: &Closure<'_>, layout: &Layout) -> u64 {
    let symbol = closure.modules[copy.from.module]
        .symbols
        .get(copy.from.symbol);
    let base = layout.bases[copy.from.module].unwrap_or(0);
    base + symbol.map_or(0, |s| s.value)
}

/// Places that a relocation of their own gives an offset in the thread-local block.
fn offsets_given(found: &[Relocation]) -> BTreeSet<u64> {
    let offsets = found.iter().filter(|r| r.kind == elf::R_X86_64_DTPOFF64.0);
    offsets.map(|r| r.stated).collect()
}

/// Resolves the relocations of one module.
struct Resolver<'a, 'data> {
    closure: &'a Closure<'data>,
    layout: &'a Layout,
    index: usize,
    base: u64,
    module: &'a Module<'data>,
    with_offset: BTreeSet<u64>,
}

impl<'data> Resolver<'_, 'data> {
    fn put(&self, r: &Relocation, values: &mut Values) -> Result<(), Refusal> {
        let block = self.module.tls.filter(|t| t.contains(r.stated));
        if block.is_some_and(|t| r.stated - t.stated + 8 > t.file_size) {
            return self.refuse(r, "it reaches beyond the thread-local block");
        }
        let place = self.place(r.stated);
        let value = match elf::RelocationType(r.kind) {
            elf::R_X86_64_NONE => return Ok(()),
            elf::R_X86_64_RELATIVE => Value::Image(self.moved(r.addend as u64)),
            elf::R_X86_64_IRELATIVE => Value::Indirect(self.moved(r.addend as u64)),
            elf::R_X86_64_COPY => return self.copy(r, place, values),
            elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT => self.address(r, Use::Address, values)?,
            elf::R_X86_64_JUMP_SLOT => self.address(r, Use::Call, values)?,
            elf::R_X86_64_DTPMOD64 => self.tls_module(r, place, values)?,
            _ => self.thread_local(r, values)?,
        };
        values.places.insert(place, value);
        Ok(())
    }

    /// Where a place ends up; those in the initial image of thread-local variables move with it.
    fn place(&self, stated: u64) -> u64 {
        let block = self.module.tls.filter(|t| t.contains(stated));
        let offset = self.layout.tls.offsets[self.index];
        match block.zip(offset) {
            Some((block, offset)) => self.layout.tls_image() + offset + (stated - block.stated),
            None => self.moved(stated),
        }
    }

    fn moved(&self, stated: u64) -> u64 {
        stated.wrapping_add(self.base)
    }

    fn refuse<T>(&self, r: &Relocation, why: &str) -> Result<T, Refusal> {
        Err(Refusal::Relocation {
            path: self.module.path.clone(),
            kind: r.kind,
            stated: r.stated,
            why: why.into(),
        })
    }

    fn symbol(&self, r: &Relocation) -> Result<&Symbol<'data>, Refusal> {
        let symbol = self.module.symbols.get(r.symbol);
        symbol.ok_or_else(|| Refusal::damaged(&self.module.path, "a relocation names no symbol"))
    }

    /// What a reference means; none for a weak one that nobody answers.
    fn resolve(
        &self,
        r: &Relocation,
        purpose: Use,
        values: &mut Values,
    ) -> Result<Option<Found>, Refusal> {
        let symbol = self.symbol(r)?;
        values.lookups_saved += usize::from(!symbol.is_local());
        let found = resolve(&self.closure.modules, self.index, r.symbol, purpose);
        if found.is_none() && !symbol.is_weak() {
            return Err(Refusal::Undefined {
                path: self.module.path.clone(),
                symbol: String::from_utf8_lossy(symbol.name).into_owned(),
            });
        }
        Ok(found)
    }

    fn found(&self, found: Found) -> Result<(&Symbol<'data>, Option<u64>), Refusal> {
        let module = &self.closure.modules[found.module];
        let symbol = module.symbols.get(found.symbol);
        let symbol = symbol.ok_or_else(|| Refusal::damaged(&module.path, "a symbol is missing"))?;
        Ok((symbol, self.layout.bases[found.module]))
    }

    fn import(&self, r: &Relocation, found: Found, values: &mut Values) -> Result<Value, Refusal> {
        let definer = &self.closure.modules[found.module];
        let version = self.module.versions.of(r.symbol);
        let import = Import {
            name: self.symbol(r)?.name.to_vec(),
            version: version.map(|v| (v.name.clone(), definer.name.clone())),
        };
        values.lookups_saved -= 1;
        Ok(Value::Import {
            kind: r.kind,
            import: values.import(import),
            addend: r.addend,
        })
    }

    fn address(&self, r: &Relocation, purpose: Use, values: &mut Values) -> Result<Value, Refusal> {
        let Some(found) = self.resolve(r, purpose, values)? else {
            return Ok(Value::Constant(r.addend as u64));
        };
        let (symbol, base) = self.found(found)?;
        let Some(base) = base else {
            return self.import(r, found, values);
        };
        let value = symbol.value.wrapping_add(r.addend as u64);
        if symbol.is_thread_local() {
            return self.refuse(r, "the address of a thread-local variable");
        }
        if symbol.is_absolute() {
            return Ok(Value::Constant(value));
        }
        let image = value.wrapping_add(base);
        match symbol.is_indirect() && !symbol.is_undefined() {
            false => Ok(Value::Image(image)),
            true if r.addend == 0 => Ok(Value::Indirect(image)),
            true => self.refuse(r, "an address behind an indirect function"),
        }
    }

    fn copy(&self, r: &Relocation, place: u64, values: &mut Values) -> Result<(), Refusal> {
        let own = self.symbol(r)?;
        let Some(found) = self.resolve(r, Use::Copy, values)? else {
            return Ok(());
        };
        let (original, base) = self.found(found)?;
        if base.is_none() {
            let value = self.import(r, found, values)?;
            values.places.insert(place, value);
            return Ok(());
        }
        let len = own.size.min(original.size);
        if !self.closure.modules[found.module].mapped(original.value, len) {
            return self.refuse(r, "what is copied lies outside of its library");
        }
        if !self.module.writable(r.stated, len) {
            return self.refuse(r, "the copy does not fit into its segment");
        }
        values.copies.push(CopyOf {
            to: place,
            from: found,
            len,
        });
        Ok(())
    }

    /// Number of the module that has a thread-local variable: all merged ones are the program's, 1.
    fn tls_module(
        &self,
        r: &Relocation,
        place: u64,
        values: &mut Values,
    ) -> Result<Value, Refusal> {
        if r.symbol != 0 {
            let Some(found) = self.resolve(r, Use::Call, values)? else {
                return Ok(Value::Constant(0));
            };
            if self.layout.bases[found.module].is_none() {
                return self.import(r, found, values);
            }
        }
        // The second word is an offset in this module's own block, unless a relocation gives it.
        if !self.with_offset.contains(&r.stated.wrapping_add(8)) {
            let Some(offset) = self.layout.tls.offsets[self.index] else {
                return self.refuse(r, "the module has no thread-local block");
            };
            let second = self.module.word(r.stated.wrapping_add(8));
            let second = Value::Constant(second.wrapping_add(offset));
            values.places.insert(place.wrapping_add(8), second);
        }
        Ok(Value::Constant(1))
    }

    /// An offset of a thread-local variable, or a descriptor of it.
    fn thread_local(&self, r: &Relocation, values: &mut Values) -> Result<Value, Refusal> {
        let mut owner = self.index;
        let mut offset = r.addend as u64;
        if r.symbol != 0 {
            let Some(found) = self.resolve(r, Use::Call, values)? else {
                return self.refuse(r, "a weak thread-local variable that nobody defines");
            };
            let (symbol, base) = self.found(found)?;
            if base.is_none() {
                return self.import(r, found, values);
            }
            owner = found.module;
            offset = offset.wrapping_add(symbol.value);
        }
        let Some(block) = self.layout.tls.offsets[owner] else {
            return self.refuse(r, "the module has no thread-local block");
        };
        let offset = offset.wrapping_add(block);
        Ok(match elf::RelocationType(r.kind) {
            elf::R_X86_64_DTPOFF64 => Value::Constant(offset),
            elf::R_X86_64_TPOFF64 => Value::Constant(offset.wrapping_sub(self.layout.tls.size)),
            elf::R_X86_64_TLSDESC => Value::TlsDescriptor(offset),
            _ => return self.refuse(r, "unknown"),
        })
    }
}

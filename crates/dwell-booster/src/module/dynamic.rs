//! The dynamic section.
use dwell_elf::ElfFile;
use object::LittleEndian as LE;
use object::elf;

/// A table in memory: stated address and bytes. Empty when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Array {
    pub stated: u64,
    pub size: u64,
}

/// What `PT_DYNAMIC` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dynamic {
    pub needed: Vec<String>,
    pub soname: Option<String>,
    pub rpath: Option<String>,
    pub runpath: Option<String>,
    pub init: Option<u64>,
    pub fini: Option<u64>,
    pub preinit_array: Array,
    pub init_array: Array,
    pub fini_array: Array,
    pub strings: Array,
    pub symbols: Option<u64>,
    pub hash: Option<u64>,
    pub gnu_hash: Option<u64>,
    pub versym: Option<u64>,
    pub verneed: Array,
    pub verdef: Array,
    pub rela: Array,
    pub jump_rela: Array,
    pub relr: Array,
    pub flags_1: u64,
    pub text_relocations: bool,
    pub symbolic: bool,
    /// A tag that changes how the loader treats the module, and that merging would lose.
    pub odd: Option<&'static str>,
}

/// Most libraries that one file may need.
const MAX_NEEDED: usize = 4096;

impl Dynamic {
    pub(crate) fn parse(elf: &ElfFile<'_>, table: &[elf::Dyn64<LE>]) -> Result<Self, &'static str> {
        let mut dynamic = Dynamic::default();
        let mut names = Names::default();
        let entries = table.iter().map(|d| (d.d_tag.get(LE).0, d.d_val.get(LE)));
        for (tag, value) in entries.take_while(|&(tag, _)| tag != elf::DT_NULL.0) {
            if !dynamic.table(tag, value) && !names.take(tag, value) {
                dynamic.word(tag, value);
            }
        }
        if names.needed.len() > MAX_NEEDED {
            return Err("it needs more than 4096 libraries");
        }
        if dynamic.flags_1 & elf::DF_1_INTERPOSE.0 != 0 {
            dynamic.odd = Some("it interposes its symbols (DF_1_INTERPOSE)");
        }
        if dynamic.flags_1 & elf::DF_1_NODEFLIB.0 != 0 {
            dynamic.odd = Some("it asks for no default library folders (DF_1_NODEFLIB)");
        }
        let text = |offset: u64| string(elf, dynamic.strings, offset);
        let needed: Result<Vec<String>, _> = names.needed.iter().map(|&o| text(o)).collect();
        let soname = names.soname.map(text).transpose()?;
        let rpath = names.rpath.map(text).transpose()?;
        let runpath = names.runpath.map(text).transpose()?;
        dynamic.needed = needed?;
        Ok(Dynamic {
            soname,
            rpath,
            runpath,
            ..dynamic
        })
    }

    /// Takes a tag that places a table or tells its size.
    fn table(&mut self, tag: i64, value: u64) -> bool {
        let (array, is_size) = match elf::DynamicTag(tag) {
            elf::DT_PREINIT_ARRAY => (&mut self.preinit_array, false),
            elf::DT_PREINIT_ARRAYSZ => (&mut self.preinit_array, true),
            elf::DT_INIT_ARRAY => (&mut self.init_array, false),
            elf::DT_INIT_ARRAYSZ => (&mut self.init_array, true),
            elf::DT_FINI_ARRAY => (&mut self.fini_array, false),
            elf::DT_FINI_ARRAYSZ => (&mut self.fini_array, true),
            elf::DT_STRTAB => (&mut self.strings, false),
            elf::DT_STRSZ => (&mut self.strings, true),
            elf::DT_RELA => (&mut self.rela, false),
            elf::DT_RELASZ => (&mut self.rela, true),
            elf::DT_JMPREL => (&mut self.jump_rela, false),
            elf::DT_PLTRELSZ => (&mut self.jump_rela, true),
            elf::DT_RELR => (&mut self.relr, false),
            elf::DT_RELRSZ => (&mut self.relr, true),
            elf::DT_VERNEED => (&mut self.verneed, false),
            elf::DT_VERNEEDNUM => (&mut self.verneed, true),
            elf::DT_VERDEF => (&mut self.verdef, false),
            elf::DT_VERDEFNUM => (&mut self.verdef, true),
            _ => return false,
        };
        if is_size {
            array.size = value;
        } else {
            array.stated = value;
        }
        true
    }

    fn word(&mut self, tag: i64, value: u64) {
        match elf::DynamicTag(tag) {
            elf::DT_INIT => self.init = Some(value),
            elf::DT_FINI => self.fini = Some(value),
            elf::DT_SYMTAB => self.symbols = Some(value),
            elf::DT_HASH => self.hash = Some(value),
            elf::DT_GNU_HASH => self.gnu_hash = Some(value),
            elf::DT_VERSYM => self.versym = Some(value),
            elf::DT_FLAGS => {
                self.text_relocations |= value & elf::DF_TEXTREL.0 != 0;
                self.symbolic |= value & elf::DF_SYMBOLIC.0 != 0;
            }
            elf::DT_FLAGS_1 => self.flags_1 = value,
            elf::DT_TEXTREL => self.text_relocations = true,
            elf::DT_SYMBOLIC => self.symbolic = true,
            elf::DT_REL => self.odd = Some("it has relocations without addends (DT_REL)"),
            elf::DT_GNU_PRELINKED => self.odd = Some("it is prelinked"),
            elf::DT_AUDIT | elf::DT_DEPAUDIT => {
                self.odd = Some("it asks for an auditor (DT_AUDIT)");
            }
            elf::DT_AUXILIARY | elf::DT_FILTER => {
                self.odd = Some("it is a filter library (DT_FILTER)");
            }
            _ => {}
        }
    }
}

/// Offsets of names, until the string table is known.
#[derive(Default)]
struct Names {
    needed: Vec<u64>,
    soname: Option<u64>,
    rpath: Option<u64>,
    runpath: Option<u64>,
}

impl Names {
    fn take(&mut self, tag: i64, value: u64) -> bool {
        match elf::DynamicTag(tag) {
            elf::DT_NEEDED => self.needed.push(value),
            elf::DT_SONAME => self.soname = Some(value),
            elf::DT_RPATH => self.rpath = Some(value),
            elf::DT_RUNPATH => self.runpath = Some(value),
            _ => return false,
        }
        true
    }
}

/// The string at an offset of the dynamic string table.
fn string(elf: &ElfFile<'_>, strings: Array, offset: u64) -> Result<String, &'static str> {
    let bytes = strings
        .stated
        .checked_add(offset)
        .filter(|_| offset < strings.size)
        .and_then(|at| elf.bytes_from(at))
        .ok_or("a name lies outside of its string table")?;
    let end = bytes.iter().take(4096).position(|&b| b == 0);
    let end = end.ok_or("a name has no end")?;
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

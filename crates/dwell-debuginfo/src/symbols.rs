//! Variables and functions from symbol tables.
use dwell_symbols::demangle;
use object::elf::{STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, STT_TLS};
use object::{Object, ObjectSymbol, SymbolFlags};

use crate::files::Files;

/// A symbol that a file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Defined {
    /// Its stated address, or its distance from the start of the thread-local block.
    pub(crate) value: u64,
    /// Bytes, 0 where the file does not say.
    pub(crate) size: u64,
    pub(crate) is_function: bool,
    pub(crate) is_thread_local: bool,
    is_external: bool,
}

/// The symbol of a name, as written or as C++ wrote it: of several one that other files see.
pub(crate) fn find(files: &Files, name: &str) -> Option<Defined> {
    let mut found: Option<Defined> = None;
    each(files, &mut |raw, symbol| {
        let better = found.is_none_or(|found| !found.is_external && symbol.is_external);
        if better && is_named(raw, name) {
            found = Some(symbol);
        }
    });
    found
}

/// All variables that a file's tables name.
pub(crate) fn variables(files: &Files) -> Vec<String> {
    let mut names = Vec::new();
    each(files, &mut |raw, symbol| {
        if !symbol.is_function {
            names.push(demangle(raw));
        }
    });
    names
}

/// The names of a file's functions whose C++ name is this, with or without its parameters.
pub(crate) fn functions_of(files: &Files, name: &str) -> Vec<String> {
    let mut names = Vec::new();
    each(files, &mut |raw, symbol| {
        if symbol.is_function && raw.starts_with("_Z") {
            let full = demangle(raw);
            if full == name || full.split('(').next() == Some(name) {
                names.push(raw.to_owned());
            }
        }
    });
    names
}

fn is_named(raw: &str, name: &str) -> bool {
    raw == name || (raw.starts_with("_Z") && name.contains("::") && demangle(raw) == name)
}

fn each(files: &Files, tell: &mut dyn FnMut(&str, Defined)) {
    let both = [Some(files.data.file()), files.data.debug()];
    for data in both.into_iter().flatten() {
        let Ok(file) = object::File::parse(data) else {
            continue;
        };
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
                continue;
            };
            let kind = st_info.st_type();
            if symbol.is_undefined()
                || ![STT_OBJECT, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_TLS].contains(&kind)
            {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            // Without the version (`stdout@@GLIBC_2.2.5`).
            let name = name.split('@').next().unwrap_or(name);
            let defined = Defined {
                value: symbol.address(),
                size: symbol.size(),
                is_function: kind == STT_FUNC || kind == STT_GNU_IFUNC,
                is_thread_local: kind == STT_TLS,
                is_external: !symbol.is_local(),
            };
            tell(name, defined);
        }
    }
}

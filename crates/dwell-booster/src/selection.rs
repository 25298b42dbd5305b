//! Which libraries are merged, and why the others stay.
use crate::closure::Closure;
use crate::module::Module;
use crate::search::named_folders;
use crate::{Inputs, Options, Refusal};
use object::elf;

/// The verdict on a module of the closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Merged,
    /// It stays a library of its own; the text says why.
    Kept(String),
}

impl Verdict {
    pub(crate) fn is_merged(&self) -> bool {
        *self == Verdict::Merged
    }
}

/// What the C library is called; a merged one answers to this name.
pub(crate) const LIBC: &str = "libc.so.6";
/// The loader, which stays in any case.
pub(crate) const LOADER: &str = "ld-linux-x86-64.so.2";

/// Unwinds the stacks of cancelled threads, and of C++ programs.
const UNWINDER: &str = "libgcc_s.so.1";

/// glibc's own libraries, which belong to its loader and to each other.
const GLIBC: [&str; 14] = [
    LOADER,
    "libBrokenLocale.so.1",
    "libanl.so.1",
    LIBC,
    "libc_malloc_debug.so.0",
    "libdl.so.2",
    "libm.so.6",
    "libmvec.so.1",
    "libnsl.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libthread_db.so.1",
    "libutil.so.1",
];

/// Relocation types that can be resolved ahead of time.
const KNOWN: [u32; 11] = [
    elf::R_X86_64_NONE.0,
    elf::R_X86_64_64.0,
    elf::R_X86_64_COPY.0,
    elf::R_X86_64_GLOB_DAT.0,
    elf::R_X86_64_JUMP_SLOT.0,
    elf::R_X86_64_RELATIVE.0,
    elf::R_X86_64_DTPMOD64.0,
    elf::R_X86_64_DTPOFF64.0,
    elf::R_X86_64_TPOFF64.0,
    elf::R_X86_64_TLSDESC.0,
    elf::R_X86_64_IRELATIVE.0,
];

/// Refuses what cannot be done for the program; decides for each library.
pub(crate) fn select(closure: &Closure<'_>, options: &Options) -> Result<Vec<Verdict>, Refusal> {
    let program = &closure.modules[0];
    check_program(closure, options)?;
    if options.libc {
        check_libc(closure)?;
    }
    let mut verdicts = vec![Verdict::Merged];
    for index in 1..closure.modules.len() {
        verdicts.push(verdict(closure, index, options));
    }
    keep_what_kept_ones_need(closure, &mut verdicts);
    if options.libc {
        check_alone(closure, &verdicts)?;
    }
    if verdicts.iter().filter(|v| v.is_merged()).count() < 2 {
        return Err(Refusal::Nothing {
            path: program.path.clone(),
        });
    }
    Ok(verdicts)
}

fn check_program(closure: &Closure<'_>, options: &Options) -> Result<(), Refusal> {
    let program = &closure.modules[0];
    let path = || program.path.clone();
    if program.elf.is_go() {
        return Err(Refusal::Go { path: path() });
    }
    let Some(loader) = program.elf.interp() else {
        return Err(
            match program.elf.is_executable() && program.dynamic.needed.is_empty() {
                true => Refusal::Static { path: path() },
                false => Refusal::Library { path: path() },
            },
        );
    };
    let loader = String::from_utf8_lossy(loader).into_owned();
    if !loader.ends_with("/ld-linux-x86-64.so.2") {
        return Err(Refusal::Loader {
            path: path(),
            loader,
        });
    }
    if !program.elf.is_executable() {
        return Err(Refusal::Library { path: path() });
    }
    unmergeable(closure, 0, options)?;
    if program.elf.entry().is_none() {
        return Err(Refusal::damaged(&program.path, "it has no entry"));
    }
    Ok(())
}

/// With the C library all is merged but the loader and what libc loads itself. The program and a library that
/// stays would need each other: the loader then prepares the program first, and variables copied from the library,
/// or functions that it chooses, would not be ready.
fn check_alone(closure: &Closure<'_>, verdicts: &[Verdict]) -> Result<(), Refusal> {
    for (module, verdict) in closure.modules.iter().zip(verdicts) {
        let may_stay = [LOADER, UNWINDER].contains(&module.name.as_str());
        if let (Verdict::Kept(why), false) = (verdict, may_stay) {
            let text = format!(
                "{} stays ({why}), so the C library must, too: use --mode static-nolibc",
                module.name
            );
            return Err(Refusal::unsupported(&closure.modules[0].path, text));
        }
    }
    Ok(())
}

/// The version of glibc whose loader was seen to take a merged C library for the real one, as its banner says.
const KNOWN_LIBC: &[u8] = b"release version 2.36.";

/// Refuses programs and C libraries of which it is not known how they find each other.
fn check_libc(closure: &Closure<'_>) -> Result<(), Refusal> {
    let program = &closure.modules[0];
    let refuse = |why: &str| Err(Refusal::unsupported(&program.path, why));
    let mut symbols = program.symbols.iter();
    let begins = symbols.find(|(_, s)| s.name == b"__libc_start_main");
    let version = begins.and_then(|(index, _)| program.versions.of(index));
    // Before 2.34 a program told which function of its own calls its constructors; libc still heeds that.
    if version.is_none_or(|v| !["GLIBC_2.34", "GLIBC_2.2.5"].contains(&&*v.name)) {
        return refuse("it does not begin as programs of glibc do: use --mode static-nolibc");
    }
    let Some(libc) = closure.modules.iter().find(|m| m.name == LIBC) else {
        return refuse("it does not use glibc: use --mode static-nolibc");
    };
    let mut windows = libc.elf.data().windows(KNOWN_LIBC.len());
    if !windows.any(|w| w == KNOWN_LIBC) {
        return refuse(
            "merging the C library is known to work with glibc 2.36: use --mode static-nolibc",
        );
    }
    Ok(())
}

/// Whether it is one of glibc's own libraries.
pub(crate) fn is_of_glibc(module: &Module<'_>) -> bool {
    GLIBC.contains(&module.name.as_str()) || module.name.starts_with("libnss_")
}

fn verdict(closure: &Closure<'_>, index: usize, options: &Options) -> Verdict {
    let module = &closure.modules[index];
    if is_of_glibc(module) && (!options.libc || module.name == LOADER) {
        return Verdict::Kept("part of glibc".into());
    }
    if module.name == UNWINDER {
        // Two copies would not do: each knows only its own registers when a thread is cancelled.
        return Verdict::Kept("libc loads it by its name".into());
    }
    if let Some(wanted) = &options.libs
        && !wanted.contains(&module.name)
    {
        return Verdict::Kept("not among --libs".into());
    }
    if options.keep.contains(&module.path) {
        return Verdict::Kept("its file is checked by a checksum beside it".into());
    }
    match unmergeable(closure, index, options) {
        Ok(()) => Verdict::Merged,
        Err(refusal) => Verdict::Kept(refusal.to_string()),
    }
}

/// What forbids merging a module, the program or a library.
fn unmergeable(closure: &Closure<'_>, index: usize, options: &Options) -> Result<(), Refusal> {
    let module = &closure.modules[index];
    let path = module.path.as_str();
    if module.dynamic.text_relocations {
        return Err(Refusal::TextRelocations { path: path.into() });
    }
    if let Some(why) = module.dynamic.odd {
        return Err(Refusal::unsupported(path, why));
    }
    if module.exec_stack {
        return Err(Refusal::unsupported(path, "it wants an executable stack"));
    }
    let is_library = !module.elf.is_executable();
    if is_library && loads_by_own_folders(module) && !options.no_plugins.contains(path) {
        let why = "it loads plugins from folders named in the library (DT_RUNPATH)";
        return Err(Refusal::unsupported(path, why));
    }
    for r in closure.relocations(index)? {
        let why = if !KNOWN.contains(&r.kind) {
            "unknown"
        } else if r.kind != elf::R_X86_64_NONE.0 && !module.writable(r.stated, 8) {
            "its place cannot be written"
        } else {
            continue;
        };
        return Err(Refusal::Relocation {
            path: path.into(),
            kind: r.kind,
            stated: r.stated,
            why: why.into(),
        });
    }
    Ok(())
}

/// Whether it may load libraries from folders that only it names.
fn loads_by_own_folders(module: &Module<'_>) -> bool {
    let names = module.dynamic.runpath.is_some() || module.dynamic.rpath.is_some();
    names && imports(module, b"dlopen")
}

/// The libraries that may load others from folders of their own, by path, with these folders.
pub fn plugin_folders(inputs: &Inputs) -> Vec<(String, Vec<String>)> {
    let libraries = inputs.files.iter().skip(1);
    let parsed = libraries.filter_map(|(path, data)| Some((path, Module::parse(path, data).ok()?)));
    let loading = parsed.filter(|(_, module)| loads_by_own_folders(module));
    let folders =
        loading.map(|(path, module)| (path.clone(), named_folders(path, &module.dynamic)));
    folders.collect()
}

/// Whether the module takes a symbol from elsewhere.
pub(crate) fn imports(module: &Module<'_>, name: &[u8]) -> bool {
    let mut symbols = module.symbols.iter();
    symbols.any(|(_, s)| s.is_undefined() && s.name == name)
}

/// Which of a program's files calls `listen`, so that others may connect to it: itself, or a library but glibc's.
pub fn listener(inputs: &Inputs) -> Option<String> {
    let modules = inputs.files.iter();
    let modules = modules.filter_map(|(path, data)| Module::parse(path, data).ok());
    let mut others = modules.filter(|m| !is_of_glibc(m));
    others.find(|m| imports(m, b"listen")).map(|m| m.name)
}

/// A kept library would load a second copy of what it needs.
fn keep_what_kept_ones_need(closure: &Closure<'_>, verdicts: &mut [Verdict]) {
    let kept = |v: &[Verdict]| {
        (1..v.len())
            .filter(|&i| !v[i].is_merged())
            .collect::<Vec<_>>()
    };
    let mut open = kept(verdicts);
    while let Some(index) = open.pop() {
        for &need in &closure.needs[index] {
            // The loader takes the merged file for the C library, whoever needs it.
            let answered = closure.modules[need].name == LIBC;
            if need != 0 && !answered && verdicts[need].is_merged() {
                let who = &closure.modules[index].name;
                verdicts[need] = Verdict::Kept(format!("needed by {who}, which stays"));
                open.push(need);
            }
        }
    }
}

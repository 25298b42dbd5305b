//! The program that is to be boosted, with all its libraries, as they are on disk.
use super::arguments::{How, Mode};
use super::profile;
use anyhow::Context;
use dwell_booster::{
    Function, Inputs, LoaderCache, Options, Processor, Refusal, StandIn, collect, plugin_folders,
};
use dwell_elf::ElfFile;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The loader's list of libraries; a change of it may change which ones a program gets.
pub const LOADER_CACHE: &str = "/etc/ld.so.cache";

/// A program and everything it needs.
pub struct Subject {
    /// The stock program, without symbolic links.
    pub path: PathBuf,
    pub inputs: Inputs,
    pub options: Options,
}

impl Subject {
    /// Finds and reads a program; refuses those that gain rights when they are run.
    pub fn read(name: &OsStr, how: &How) -> anyhow::Result<Self> {
        let libs = &how.libs;
        let path = find(name)?;
        check_privileges(&path)?;
        let text = path.to_str().with_context(|| {
            format!(
                "{} has a path that is not UTF-8: give it another",
                path.display()
            )
        })?;
        let data = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let cache = LoaderCache::parse(&fs::read(LOADER_CACHE).unwrap_or_default());
        let mut inputs = collect(text, data, &cache, read_library);
        inputs.named = debug_names(&inputs);
        let libraries = inputs.files.iter().skip(1).map(|(path, _)| path);
        let checked: BTreeSet<String> = libraries.filter(|p| has_checksum(p)).cloned().collect();
        let options = Options {
            libs: (!libs.is_empty()).then(|| libs.clone()),
            keep: checked,
            no_plugins: without_plugins(&inputs),
            direct: how.level >= 1,
            libc: how.mode == Mode::Static,
            profile: how.profile.as_deref().map(profile::profile).transpose()?,
            fixed: if how.level >= 2 {
                Some(random_address()?)
            } else {
                None
            },
            processor: (how.level >= 3).then(|| Processor::ask(ask, enabled())),
            stand_in: Some(StandIn {
                guard: None,
                stock: CString::new(text)?,
            }),
            ..Options::default()
        };
        check_names(libs, &inputs)?;
        Ok(Subject {
            path,
            inputs,
            options,
        })
    }

    /// Refuses to write over what is read.
    pub fn check_output(&self, output: &Path) -> anyhow::Result<()> {
        let Ok(there) = fs::canonicalize(output) else {
            return Ok(());
        };
        let paths = self.inputs.files.iter();
        let inputs = paths.filter_map(|(path, _)| fs::canonicalize(path).ok());
        anyhow::ensure!(
            !inputs.into_iter().any(|path| path == there),
            "{} is part of what is merged, which stays as it is: name another file with -o",
            output.display()
        );
        Ok(())
    }
}

/// What of the processor the kernel lets programs use (XCR0); 0 when that cannot be asked.
fn enabled() -> u64 {
    #[target_feature(enable = "xsave")]
    fn xcr0() -> u64 {
        // SAFETY: register 0 can be read wherever the instruction is enabled, as in this function.
        unsafe { std::arch::x86_64::_xgetbv(0) }
    }
    if !std::arch::is_x86_feature_detected!("xsave") {
        return 0;
    }
    // SAFETY: the processor and the kernel have it, as was just asked.
    unsafe { xcr0() }
}

/// Asks the processor.
fn ask(leaf: u32, part: u32) -> [u32; 4] {
    let registers = std::arch::x86_64::__cpuid_count(leaf, part);
    [registers.eax, registers.ebx, registers.ecx, registers.edx]
}

/// Where a merged program may begin: the kernel draws from the same range for programs without an address, as finely.
fn random_address() -> anyhow::Result<u64> {
    const FIRST: u64 = 0x5555_5555_4000;
    const PAGES: u64 = 1 << 28;
    let mut bytes = [0; 8];
    let mut file = fs::File::open("/dev/urandom").context("drawing an address")?;
    file.read_exact(&mut bytes).context("drawing an address")?;
    let page = u64::from_le_bytes(bytes) % PAGES;
    Ok(FIRST + (page << 12))
}

/// Where a command is, without symbolic links.
pub fn find(name: &OsStr) -> anyhow::Result<PathBuf> {
    let path = dwell_collector::find_command(name).with_context(|| {
        format!(
            "{}: no such program; give its path, or a name that is in PATH",
            name.display()
        )
    })?;
    fs::canonicalize(&path).with_context(|| format!("following {}", path.display()))
}

/// Refuses programs that gain rights, or that rules of the system know by their path.
fn check_privileges(path: &Path) -> Result<(), Refusal> {
    let mode = fs::metadata(path).map_or(0, |m| m.mode());
    let bits = mode & (libc::S_ISUID | libc::S_ISGID);
    let what = if bits & libc::S_ISUID != 0 {
        "a set-user-ID bit"
    } else if bits != 0 {
        "a set-group-ID bit"
    } else if has_capabilities(path) {
        "file capabilities"
    } else if apparmor_profile(path).exists() {
        "an AppArmor profile, which is found by its path"
    } else {
        return Ok(());
    };
    Err(Refusal::Privileged {
        path: path.display().to_string(),
        what,
    })
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: both strings end with a zero; a size of 0 only asks for the length, nothing is written.
    let len = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    len > 0
}

/// Profiles are in files that are named after the program: `/usr/bin/man` has `usr.bin.man`.
fn apparmor_profile(path: &Path) -> PathBuf {
    let name = path.to_string_lossy();
    let name = name.trim_start_matches('/').replace('/', ".");
    Path::new("/etc/apparmor.d").join(name)
}

fn read_library(path: &str) -> Option<Vec<u8>> {
    // A folder or a device of that name is not what the loader would take.
    let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
    is_file.then(|| fs::read(path).ok()).flatten()
}

/// The functions that installed debug files name.
fn debug_names(inputs: &Inputs) -> HashMap<String, Vec<Function>> {
    let function = |s: dwell_elf::Symbol<'_>| Function {
        address: s.address,
        size: s.size,
        name: s.name.to_vec(),
        indirect: s.indirect,
    };
    let of_debug_file = |debug: &[u8]| match ElfFile::parse(debug) {
        Ok(elf) => elf.symbols().map(function).collect(),
        Err(_) => Vec::new(),
    };
    let files = inputs.files.iter();
    let named = files.filter_map(|(path, data)| {
        let functions = dwell_symbols::debug_file(Path::new(path), data, of_debug_file)?;
        Some((path.clone(), functions))
    });
    named.collect()
}

/// The libraries that name folders to load from, in which there is no library.
fn without_plugins(inputs: &Inputs) -> BTreeSet<String> {
    let holds_library = |folder: &String| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
        names.any(|name| name.contains(".so") || name == "glibc-hwcaps")
    };
    let named = plugin_folders(inputs).into_iter();
    let without = named.filter(|(_, folders)| !folders.iter().any(holds_library));
    without.map(|(path, _)| path).collect()
}

/// Whether a library's bytes are compared with a checksum beside it, as FIPS modules' are.
fn has_checksum(path: &str) -> bool {
    let path = Path::new(path);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return false;
    };
    let name = name.to_string_lossy();
    let beside = [
        format!(".{name}.hmac"),
        format!("{name}.hmac"),
        format!("fipscheck/{name}.hmac"),
    ];
    beside.iter().any(|b| folder.join(b).exists())
}

/// A library that is asked for must be one that is needed.
fn check_names(libs: &[String], inputs: &Inputs) -> anyhow::Result<()> {
    let unknown = libs.iter().find(|name| !inputs.found.contains_key(*name));
    if let Some(name) = unknown {
        let mut known: Vec<&str> = inputs.found.keys().map(String::as_str).collect();
        known.sort_unstable();
        anyhow::bail!("--libs {name}: not needed; there are {}", known.join(", "));
    }
    Ok(())
}

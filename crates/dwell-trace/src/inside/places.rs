//! Which places of a process are patched for a script, and whether that can be done.
use super::code::Block;
use super::watchers::Count;
use super::{Made, refuse};
use crate::error::TraceError;
use crate::probes::{At, Code};
use dwell_elf::ElfFile;
use dwell_patch::plan::{Place, parts};
use dwell_patch::process::FunctionAt;
use dwell_patch::{Attachment, Hook, Image, Probe};
use dwell_script::codegen::Site;
use memmap2::Mmap;
use std::collections::HashMap;
use std::fs::{self, File};

/// The process that a script is about; refused where there is none or more than one.
pub(super) fn process(made: &[Made]) -> Result<u32, TraceError> {
    let mut pids = Vec::new();
    for made in made {
        let what = match made.site {
            Site::Begin | Site::End | Site::Error | Site::Tick => "",
            Site::Entry | Site::Return | Site::Offset | Site::Static(_) => "",
            Site::SyscallEntry | Site::SyscallReturn => "system calls",
            Site::Tracepoint => "the kernel's tracepoints",
            Site::Profile => "profile probes",
        };
        if !what.is_empty() {
            return Err(refuse(format_args!("{what} are only seen by the kernel")));
        }
        pids.extend(made.members.iter().filter_map(|(_, at)| match at {
            At::Code { pid, .. } => Some(*pid),
            _ => None,
        }));
    }
    pids.sort_unstable();
    pids.dedup();
    match pids[..] {
        [pid] => Ok(pid),
        [] => Err(refuse("no probe is in a process")),
        _ => Err(refuse("the probes are in several processes")),
    }
}

/// Whether the machine and the process allow what the agent does.
pub(super) fn check_machine(pid: u32) -> Result<(), TraceError> {
    /// Of AT_HWCAP2: programs may read the fs base.
    const FSGSBASE: u64 = 1 << 1;
    /// Of leaf 7's ecx.
    const RDPID: u32 = 1 << 22;
    // SAFETY: asks for a word that the kernel gave this process.
    let has_base = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
    // SAFETY: every x86-64 processor has the instruction. Newer compilers know that.
    #[allow(unused_unsafe)]
    let leaf = unsafe { core::arch::x86_64::__cpuid_count(7, 0) };
    let has_rdpid = leaf.ecx & RDPID != 0;
    if !has_base || !has_rdpid {
        return Err(refuse(
            "this processor does not tell programs on which thread and processor they are",
        ));
    }
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    if fs::read_to_string(source).is_ok_and(|s| s.trim() != "tsc") {
        return Err(refuse(
            "the processor's counter is not the kernel's clock here",
        ));
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let seccomp = status.lines().find_map(|l| l.strip_prefix("Seccomp:"));
    if seccomp.is_some_and(|mode| mode.trim() != "0") {
        return Err(refuse(format_args!(
            "process {pid} may not make all system calls (seccomp)"
        )));
    }
    Ok(())
}

/// A file with probes.
struct Module {
    path: String,
    data: Mmap,
}

impl Module {
    fn open(file: &str, pid: u32) -> Result<Module, TraceError> {
        let failed = |error| refuse(format_args!("{file}: {error}"));
        let named = file.strip_prefix(&format!("/proc/{pid}/root"));
        let path = match named {
            Some(path) => path.to_owned(),
            None => fs::read_link(file).map_or(file.into(), |path| path.display().to_string()),
        };
        let opened = File::open(file).map_err(failed)?;
        // SAFETY: the file is one that the target runs; who rewrites such a file in place breaks the target as well.
        let data = unsafe { Mmap::map(&opened) }.map_err(failed)?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned();
        Ok(Module { path, data })
    }
}

/// What is to be patched.
pub(super) fn probes(pid: u32, made: &[Made], block: &Block<'_>) -> Result<Vec<Probe>, TraceError> {
    let mut modules: HashMap<&str, Module> = HashMap::new();
    let mut probes = Vec::new();
    for (index, made) in made.iter().enumerate() {
        for (number, at) in &made.members {
            let At::Code {
                file, offset, what, ..
            } = at
            else {
                continue;
            };
            if !modules.contains_key(&**file) {
                modules.insert(file, Module::open(file, pid)?);
            }
            let module = &modules[&**file];
            let (function, place) = place(module, *offset, what)?;
            let code = block.start(index);
            probes.push(Probe {
                file: module.path.clone(),
                function: FunctionAt::Address(function),
                place,
                hook: Hook::Program {
                    code,
                    number: *number,
                },
            });
        }
    }
    if probes.is_empty() {
        return Err(refuse(format_args!("no probe is in process {pid}")));
    }
    Ok(probes)
}

/// The function around a place of a file, and where in it that is.
fn place(module: &Module, offset: u64, what: &Code) -> Result<(u64, Place), TraceError> {
    let path = &module.path;
    let failed = |why: &dyn std::fmt::Display| refuse(format_args!("{path} at {offset:#x}: {why}"));
    let elf = ElfFile::parse(&module.data).map_err(|e| failed(&e))?;
    let image = Image::parse(&module.data).map_err(|e| failed(&e))?;
    let address = elf.stated_address(offset);
    let address = address.ok_or_else(|| failed(&"no code is there"))?;
    let function = image.function_around(address).map_err(|e| failed(&e))?;
    let place = match what {
        Code::Entry => Place::Entry,
        Code::Instruction => Place::Offset((address - function.start) as u32),
        // Where it leads to others by a jump, they return in its place, and for others as well.
        Code::Return if parts(&image, function.start).len() > 1 => {
            return Err(failed(&"the function ends by a jump to another"));
        }
        Code::Return => Place::Rets,
        Code::Static { .. } => {
            let why = "there is no room for a jump at the static probe: it was not built with dwell/sdt.h";
            let site = jump_site(&elf, address).ok_or_else(|| failed(&why))?;
            Place::Offset((site - function.start) as u32)
        }
    };
    Ok((function.start, place))
}

/// Where a jump goes at a static probe: the instruction of five bytes behind the `nop` that its note tells.
fn jump_site(elf: &ElfFile<'_>, nop: u64) -> Option<u64> {
    /// `nopw 0x0(%rax)`.
    const ROOM: [u8; 5] = [0x66, 0x0f, 0x1f, 0x40, 0x00];
    let site = nop + 1;
    elf.bytes_from(site)?.starts_with(&ROOM).then_some(site)
}

/// The counts of the static probes' watchers.
pub(super) fn counts(made: &[Made]) -> Vec<Count<'_>> {
    let places = made.iter().flat_map(|made| &made.members);
    let counts = places.filter_map(|(_, at)| match at {
        At::Code {
            file,
            what:
                Code::Static {
                    semaphore: Some(count),
                    ..
                },
            ..
        } => Some((&**file, *count)),
        _ => None,
    });
    counts.collect()
}

/// Refuses a process of which not every place was patched.
pub(super) fn check_spots(attachment: &Attachment, probes: &[Probe]) -> Result<(), TraceError> {
    let mut spots = attachment.spots().iter();
    if let Some(spot) = spots.find(|s| s.refusal.is_some()) {
        let (path, function) = (&spot.path, spot.function);
        let why = spot.refusal.expect("it was looked for");
        let place = probes[spot.probe].place;
        return Err(refuse(format_args!(
            "{path}: the function at {function:#x} ({place:?}): {why}"
        )));
    }
    let is_patched = |n: usize| attachment.spots().iter().any(|s| s.probe == n);
    match (0..probes.len()).find(|n| !is_patched(*n)) {
        Some(missing) => Err(refuse(format_args!(
            "{} is not mapped",
            probes[missing].file
        ))),
        None => Ok(()),
    }
}

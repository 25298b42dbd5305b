//! Which places of a process are patched for a script, and for which that cannot be done.
use super::code::{self, Block};
use super::memory::Shape;
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
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::rc::Rc;

/// What of a script could run inside which process, and why the rest could not.
pub(crate) struct Survey {
    pub(crate) pid: u32,
    places: BTreeMap<u32, Spot>,
    /// By probe.
    pub(crate) reasons: BTreeMap<u32, String>,
    /// Those of them that are refused for their places alone.
    unpatchable: BTreeSet<u32>,
}

/// Where a probe is in a file.
struct Spot {
    file: Rc<str>,
    function: u64,
    place: Place,
}

/// Looks at all probes of a script. Refused where none is in a process, or nothing can run in it.
pub(super) fn survey(made: &[Made], shape: &Shape) -> Result<Survey, TraceError> {
    let mut survey = Survey {
        pid: process(made)?,
        places: BTreeMap::new(),
        reasons: BTreeMap::new(),
        unpatchable: BTreeSet::new(),
    };
    check_machine(survey.pid)?;
    for made in made {
        let only_kernel = match made.site {
            Site::Begin | Site::End | Site::Error | Site::Tick => "",
            Site::Entry | Site::Return | Site::Offset | Site::Static(_) => "",
            Site::SyscallEntry | Site::SyscallReturn => "system calls are only seen by the kernel",
            Site::Tracepoint => "the kernel's tracepoints are only seen by the kernel",
            Site::Profile => "profile probes are only seen by the kernel",
        };
        let why = match only_kernel {
            "" => code::why_not(made, shape),
            why => Some(why.to_owned()),
        };
        if let Some(why) = why {
            let numbers = made
                .members
                .iter()
                .map(|(number, _)| (*number, why.clone()));
            survey.reasons.extend(numbers);
        }
    }
    survey.find_places(made);
    Ok(survey)
}

/// The process that most of a script's places are in.
fn process(made: &[Made]) -> Result<u32, TraceError> {
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, at) in made.iter().flat_map(|made| &made.members) {
        if let At::Code { pid, .. } = at {
            *places.entry(*pid).or_default() += 1;
        }
    }
    let most = places.into_iter().max_by_key(|(_, count)| *count);
    let (pid, _) = most.ok_or_else(|| {
        let only = made
            .iter()
            .map(|made| made.site)
            .find_map(|site| match site {
                Site::SyscallEntry | Site::SyscallReturn => Some("system calls"),
                Site::Tracepoint => Some("the kernel's tracepoints"),
                Site::Profile => Some("profile probes"),
                _ => None,
            });
        match only {
            Some(what) => refuse(format_args!("{what} are only seen by the kernel")),
            None => refuse("no probe is in a process"),
        }
    })?;
    Ok(pid)
}

impl Survey {
    /// Whether a probe is refused for its place, not for what is done there.
    pub(crate) fn leaves_out(&self, probe: u32) -> bool {
        self.unpatchable.contains(&probe)
    }

    /// Where the probes are that are not refused yet.
    fn find_places(&mut self, made: &[Made]) {
        let mut by_file: BTreeMap<&str, Vec<(u32, u64, &Code)>> = BTreeMap::new();
        for (number, at) in made.iter().flat_map(|made| &made.members) {
            let At::Code {
                file,
                pid,
                offset,
                what,
            } = at
            else {
                continue;
            };
            if *pid != self.pid {
                let why = format!("other probes are in process {}", self.pid);
                self.reasons.entry(*number).or_insert(why);
            } else if !self.reasons.contains_key(number) {
                let places = by_file.entry(file).or_default();
                places.push((*number, *offset, what));
            }
        }
        for (file, places) in by_file {
            if let Err(why) = self.find_in(file, &places) {
                let numbers = places.iter().map(|place| (place.0, why.clone()));
                self.reasons.extend(numbers);
            }
        }
    }

    fn find_in(&mut self, file: &str, places: &[(u32, u64, &Code)]) -> Result<(), String> {
        let module = Module::open(file, self.pid)?;
        let failed = |error| format!("{}: {error}", module.path);
        let image = Image::parse(&module.data).map_err(failed)?;
        let path: Rc<str> = module.path.as_str().into();
        for (number, offset, what) in places {
            match place(&image, *offset, what) {
                Ok((function, place)) => {
                    let file = Rc::clone(&path);
                    let spot = Spot {
                        file,
                        function,
                        place,
                    };
                    self.places.insert(*number, spot);
                }
                Err(why) => {
                    self.unpatchable.insert(*number);
                    self.reasons.insert(*number, why);
                }
            }
        }
        Ok(())
    }

    /// What is to be patched for these programs, with the probes' numbers.
    pub(super) fn probes(&self, made: &[Made], block: &Block<'_>) -> (Vec<u32>, Vec<Probe>) {
        let (mut numbers, mut probes) = (Vec::new(), Vec::new());
        for (index, made) in made.iter().enumerate() {
            for (number, _) in &made.members {
                let Some(spot) = self.places.get(number) else {
                    continue;
                };
                numbers.push(*number);
                probes.push(Probe {
                    file: spot.file.to_string(),
                    function: FunctionAt::Address(spot.function),
                    place: spot.place,
                    hook: Hook::Program {
                        code: block.start(index),
                        number: *number,
                    },
                });
            }
        }
        (numbers, probes)
    }
}

/// Whether the machine and the process allow what the agent does.
fn check_machine(pid: u32) -> Result<(), TraceError> {
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
pub(super) struct Module {
    path: String,
    pub(super) data: Mmap,
}

impl Module {
    pub(super) fn open(file: &str, pid: u32) -> Result<Module, String> {
        let failed = |error| format!("{file}: {error}");
        let named = file.strip_prefix(&format!("{}/root", dwell_maps::folder(pid)));
        let path = match named {
            Some(path) => path.to_owned(),
            None => fs::read_link(file).map_or(file.into(), |path| path.display().to_string()),
        };
        let opened = File::open(file).map_err(failed)?;
        // SAFETY: the file is one that the target runs; who rewrites such a file in place breaks the target as well.
        let data = unsafe { Mmap::map(&opened) }.map_err(failed)?;
        let path = dwell_maps::without_remark(&path).to_owned();
        Ok(Module { path, data })
    }
}

/// The function around a place of a file, and where in it that is.
fn place(image: &Image<'_>, offset: u64, what: &Code) -> Result<(u64, Place), String> {
    let elf = image.file();
    let address = elf.stated_address(offset).ok_or("no code is there")?;
    let function = image
        .function_around(address)
        .map_err(|why| why.to_string())?;
    let place = match what {
        Code::Entry => Place::Entry,
        Code::Instruction => Place::Offset((address - function.start) as u32),
        // Where it leads to others by a jump, they return in its place, and for others as well.
        Code::Return if parts(image, function.start).len() > 1 => {
            return Err("the function ends by a jump to another".into());
        }
        Code::Return => Place::Rets,
        Code::Static { .. } => {
            let why = "there is no room for a jump at the static probe: it was not built with dwell/sdt.h";
            let site = jump_site(elf, address).ok_or(why)?;
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

/// Those of the first probes whose places were not patched, and why.
pub(super) fn refused(attachment: &Attachment, numbers: &[u32]) -> Refused {
    let mut why: Vec<Option<String>> = vec![None; numbers.len()];
    let mut patched = vec![false; numbers.len()];
    for spot in attachment
        .spots()
        .iter()
        .filter(|s| s.probe < numbers.len())
    {
        match spot.refusal {
            Some(refusal) => why[spot.probe] = Some(refusal.to_string()),
            None => patched[spot.probe] = true,
        }
    }
    let mut refused = Refused::default();
    for ((number, why), patched) in numbers.iter().zip(why).zip(patched) {
        refused.partly |= patched && why.is_some();
        let unmapped = (!patched).then(|| "its file is not mapped".to_owned());
        if let Some(why) = why.or(unmapped) {
            refused.reasons.insert(*number, why);
        }
    }
    refused
}

/// What was not patched of what was wanted.
#[derive(Default)]
pub(crate) struct Refused {
    /// Why, by probe.
    pub(crate) reasons: BTreeMap<u32, String>,
    /// Some of them fire at other places of theirs.
    pub(crate) partly: bool,
}

//! What a script's descriptions mean on this machine.
mod functions;
mod glob;
pub(crate) mod patched;
mod place;
mod process;
mod static_probes;
mod syscalls;
mod timers;
mod tracepoints;

pub use glob::matches;
pub use process::{Module, Process};

use crate::error::TraceError;
use dwell_script::codegen::Operand;
use dwell_script::schema::ProbeName;
use dwell_script::typed::ProbePattern;

/// A probe that a description matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Its name.
    pub name: ProbeName,
    /// Where it is.
    pub at: At,
}

/// Where a probe is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum At {
    /// When the script starts.
    Begin,
    /// When it ends.
    End,
    /// When a clause cannot go on.
    Error,
    /// Every so many ns on all processors.
    Profile(u64),
    /// Every so many ns on one processor.
    Tick(u64),
    /// A system call.
    Syscall {
        /// Its number.
        number: u32,
        /// Its return instead of its entry.
        returns: bool,
    },
    /// A tracepoint of the kernel.
    Tracepoint(Box<str>),
    /// Code of a file.
    Code {
        /// A path that leads to the file whatever became of its name.
        file: Box<str>,
        /// The process.
        pid: u32,
        /// From the start of the file.
        offset: u64,
        /// What of it.
        what: Code,
    },
}

/// What of a place in the code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// A function is entered.
    Entry,
    /// The function that begins there returns.
    Return,
    /// The instruction there.
    Instruction,
    /// A static probe.
    Static {
        /// Its arguments.
        operands: Vec<Operand>,
        /// Where in the file its count of watchers is.
        semaphore: Option<u64>,
    },
}

/// Every probe that a description matches. Processes are read when they are first named, and kept.
pub fn find(
    pattern: &ProbePattern,
    processes: &mut Vec<Process>,
) -> Result<Vec<Probe>, TraceError> {
    if let Some((provider, pid)) = process_of(&pattern.provider) {
        let process = open(processes, pid)?;
        return match provider {
            "pid" => functions::find(pattern, process),
            provider => static_probes::find(pattern, provider, process),
        };
    }
    let mut found = Vec::new();
    special(pattern, &mut found);
    timers::find(pattern, &mut found)?;
    syscalls::find(pattern, &mut found);
    tracepoints::find(pattern, &mut found);
    Ok(found)
}

/// Of a description that matches nothing: what there is in the place of the part that is wrong.
pub(crate) fn nearest(pattern: &ProbePattern, processes: &mut Vec<Process>) -> Option<String> {
    type Wanted = fn(&mut ProbePattern) -> &mut Box<str>;
    type Known = fn(ProbeName) -> Box<str>;
    let parts: [(Wanted, Known); 3] = [
        (|p| &mut p.function, |n| n.function),
        (|p| &mut p.name, |n| n.name),
        (|p| &mut p.module, |n| n.module),
    ];
    parts.into_iter().find_map(|(part, of)| {
        let mut wider = pattern.clone();
        let wrong = std::mem::take(part(&mut wider));
        let found = match wrong.is_empty() || glob::is_pattern(&wrong) {
            true => Vec::new(),
            false => find(&wider, processes).unwrap_or_default(),
        };
        let known: Vec<Box<str>> = found.into_iter().map(|probe| of(probe.name)).collect();
        let near = dwell_script::nearest(&wrong, known.iter().map(AsRef::as_ref));
        near.map(str::to_owned)
    })
}

fn open(processes: &mut Vec<Process>, pid: u32) -> Result<&Process, TraceError> {
    if let Some(at) = processes.iter().position(|p| p.pid == pid) {
        return Ok(&processes[at]);
    }
    processes.push(Process::read(pid).map_err(|error| TraceError::Process { pid, error })?);
    Ok(processes.last().expect("just pushed"))
}

/// BEGIN, END and ERROR.
fn special(pattern: &ProbePattern, found: &mut Vec<Probe>) {
    if !matches(&pattern.provider, "dtrace")
        || !pattern.module.is_empty()
        || !pattern.function.is_empty()
    {
        return;
    }
    for (text, at) in [("BEGIN", At::Begin), ("END", At::End), ("ERROR", At::Error)] {
        if matches(&pattern.name, text) {
            found.push(Probe {
                name: name("dtrace", "", "", text),
                at,
            });
        }
    }
}

fn name(provider: &str, module: &str, function: &str, name: &str) -> ProbeName {
    ProbeName {
        provider: provider.into(),
        module: module.into(),
        function: function.into(),
        name: name.into(),
    }
}

/// The provider's name and the process' number of `pid1234`.
fn process_of(provider: &str) -> Option<(&str, u32)> {
    let name = provider.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &provider[name.len()..];
    (!name.is_empty()).then_some((name, number.parse().ok()?))
}

fn description_error(pattern: &ProbePattern, why: &str) -> TraceError {
    TraceError::Description {
        description: describe(pattern),
        why: why.into(),
    }
}

/// A description as it is written.
pub fn describe(pattern: &ProbePattern) -> String {
    let ProbePattern {
        provider,
        module,
        function,
        name,
        ..
    } = pattern;
    format!("{provider}:{module}:{function}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_with_processes() {
        assert_eq!(process_of("pid123"), Some(("pid", 123)));
        assert_eq!(process_of("my_app77"), Some(("my_app", 77)));
        assert_eq!(process_of("http2_77"), Some(("http2_", 77)));
        assert_eq!(process_of("syscall"), None);
        assert_eq!(process_of("12"), None);
    }

    #[test]
    fn begin_has_two_names() {
        let pattern = |provider: &str, name: &str| ProbePattern {
            provider: provider.into(),
            name: name.into(),
            ..ProbePattern::default()
        };
        for pattern in [pattern("", "BEGIN"), pattern("dtrace", "BEGIN")] {
            let found = find(&pattern, &mut Vec::new()).expect("it is found");
            assert_eq!(
                found.iter().map(|p| &p.at).collect::<Vec<_>>(),
                [&At::Begin]
            );
        }
        assert!(
            find(&pattern("", "begin"), &mut Vec::new())
                .expect("nothing")
                .is_empty()
        );
    }
}

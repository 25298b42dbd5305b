//! Programs whose life is mostly their start: the dynamic linker looks up their symbols, each time again; and programs that
//! call through the stubs it leaves behind all the time.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::recorded::Recorded;
use dwell_analysis::names::PathId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

pub(super) const NAME: &str = "dynamic-loading";

/// Of the CPU time of all processes of the program, in the dynamic linker.
const SHARE: f64 = 0.2;
/// From here on its start is most of what the program does.
const HIGH_SHARE: f64 = 0.5;
/// Of the same, in stubs of the PLT: a stub is two instructions, so this is a call every few dozen.
const STUBS_SHARE: f64 = 0.05;

/// The dynamic linker's functions, and its name where it has no symbols.
const LINKER: &[&str] = &[
    "_dl_",
    "dl_main",
    "rtld_",
    "[ld-linux",
    "[ld-musl",
    "__dls",
    "dlstart",
];
/// What it calls is the program's own.
const CALLS_OUT: &[&str] = &["call_init", "_dl_init", "_dl_fini", "_dl_call_fini"];
/// What is in the linker's file, and programs call while they run.
const NOT_LINKER: &[&str] = &["_dl_iterate_phdr", "_dl_find_object", "_dl_addr"];

/// A program and its processes.
#[derive(Default)]
struct Program {
    processes: u64,
    running_ns: u64,
    linker_ns: u64,
    lookups_ns: u64,
    stubs_ns: u64,
    paths: FxHashMap<PathId, u64>,
}

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let programs = programs(recorded);
    programs
        .iter()
        .filter_map(|(name, program)| judge(recorded, name, program))
        .collect()
}

fn programs<'t>(recorded: &Recorded<'_, 't>) -> BTreeMap<&'t str, Program> {
    let analysis = recorded.analysis;
    let processes = &analysis.tables.processes;
    let mut programs: BTreeMap<&str, Program> = BTreeMap::new();
    for row in processes {
        programs.entry(&row.name).or_default().processes += 1;
    }
    for entry in analysis.profile.entries.iter().filter(|e| e.state.on_cpu()) {
        let process = analysis.tables.threads[entry.thread as usize].process;
        let Some(process) = analysis.index.process(process) else {
            continue;
        };
        let one = programs.entry(&processes[process].name).or_default();
        let path = analysis.names.path_of(entry.stack);
        let at = place(recorded, path);
        let ns = entry.weight_ns;
        one.running_ns = one.running_ns.saturating_add(ns);
        if at.linker {
            one.linker_ns = one.linker_ns.saturating_add(ns);
            *one.paths.entry(path).or_default() += ns;
        }
        if at.linker && !at.kernel {
            one.lookups_ns = one.lookups_ns.saturating_add(ns);
        }
        if at.stub {
            one.stubs_ns = one.stubs_ns.saturating_add(ns);
            *one.paths.entry(path).or_default() += ns;
        }
    }
    programs
}

/// Where a stack ends.
struct Place {
    linker: bool,
    stub: bool,
    kernel: bool,
}

fn place(recorded: &Recorded<'_, '_>, path: PathId) -> Place {
    let names = &recorded.analysis.names;
    let mut place = Place {
        linker: false,
        stub: false,
        kernel: false,
    };
    let begins = |name: &str, with: &[&str]| with.iter().any(|w| name.starts_with(w));
    for id in names.path(path) {
        let function = names.function(*id);
        place.kernel = function.kernel;
        if function.kernel {
            continue;
        }
        place.stub = function.name.ends_with("@plt");
        if begins(&function.name, CALLS_OUT) || begins(&function.name, NOT_LINKER) {
            place.linker = false;
        } else if begins(&function.name, LINKER) {
            place.linker = true;
        }
    }
    place.stub &= !place.kernel;
    place
}

fn judge(recorded: &Recorded<'_, '_>, name: &str, program: &Program) -> Option<Finding> {
    let of_all = |ns: u64| (ns as f64 / program.running_ns.max(1) as f64).min(1.0);
    let [linker, stubs] = [of_all(program.linker_ns), of_all(program.stubs_ns)];
    let starts = linker >= SHARE && recorded.is_sampled(program.linker_ns);
    let calls = stubs >= STUBS_SHARE && recorded.is_sampled(program.stubs_ns);
    if !starts && !calls {
        return None;
    }
    let title = match starts {
        true => format!(
            "{name} spends {:.0} % of its CPU time in the dynamic linker",
            100.0 * linker
        ),
        false => format!(
            "{name} calls libraries through stubs for {:.0} % of its CPU time",
            100.0 * stubs
        ),
    };
    let path = program.paths.iter().max_by_key(|(path, ns)| (**ns, **path));
    let stacks = path.map(|(path, _)| recorded.stack(format!("{name} starts"), *path));
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(linker + stubs, HIGH_SHARE),
        title,
        evidence: vec![
            Number::count("processes", program.processes as f64),
            Number::ns("CPU time, all of them", program.running_ns),
            Number::ns("in the dynamic linker", program.linker_ns),
            Number::ns("of it looking up symbols and relocating", program.lookups_ns),
            Number::ns(
                "in it for each process",
                program.linker_ns / program.processes.max(1),
            ),
            Number::ns("in stubs of the PLT", program.stubs_ns),
        ],
        stacks: stacks.into_iter().collect(),
        remedy: "Let `dwell boost` make one file of the program and its libraries, whose symbols are looked up once and called \
                 directly; or link it statically, need fewer libraries, or start it once for many jobs."
            .to_owned(),
        effect: Effect {
            saves: Saves::CpuTime,
            part: recorded.of_cpu_time(program.running_ns),
            of: "these processes' CPU time".to_owned(),
            low: of_all(program.lookups_ns.saturating_add(program.stubs_ns)),
            high: of_all(program.linker_ns.saturating_add(program.stubs_ns)),
            how: "from what the linker itself ran to that and the kernel's work for it: opening and mapping files, faults"
                .to_owned(),
        },
        confidence: Confidence::High,
        page: page(NAME),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::drawn;

    fn found(linker_ms: u32, kernel_ms: u32, stub_ms: u32, outermost: &str) -> Vec<Finding> {
        let tables = drawn(&format!(
            "state | running | running | running | running
             time  | 500 | {linker_ms} | {kernel_ms} | {stub_ms}
             stack | main | _dl_start | _dl_start | main
                   | work | {outermost} | _dl_map_object | strlen@plt
                   |      | do_lookup_x | mmap_region_[k] |"
        ));
        let analysis = Analysis::of(&tables);
        find(&Recorded::of(&analysis))
    }

    #[test]
    fn a_start_that_takes_long_is_told_with_what_is_the_kernels() {
        let found = found(250, 200, 1, "_dl_relocate_object");
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::Medium);
        let [low, high] = [finding.effect.low, finding.effect.high];
        assert!((low - 0.264).abs() < 1e-2 && (high - 0.474).abs() < 1e-2);
        assert!(finding.remedy.contains("dwell boost"), "{finding:?}");
    }

    #[test]
    fn calls_through_stubs_are_told() {
        let found = found(1, 1, 300, "_dl_relocate_object");
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(finding.title.contains("through stubs"), "{finding:?}");
    }

    #[test]
    fn short_starts_and_constructors_are_not() {
        assert_eq!(found(50, 20, 1, "_dl_relocate_object"), []);
        assert_eq!(found(300, 20, 1, "call_init"), []);
    }
}

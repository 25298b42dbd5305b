//! The text for what reads `perf script`, read by inferno's reader of it.
use dwell_analysis::testing::{Scale, drawn, fixture};
use dwell_report::{Analysis, folded, perf_script};
use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use std::collections::BTreeMap;

/// ns by thread name and innermost frame.
type Sums = BTreeMap<(String, String), u64>;

fn sums(text: &str, thread: usize) -> Sums {
    let mut sums = Sums::new();
    for line in text.lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        let frames: Vec<&str> = stack.split(';').collect();
        let leaf = frames.last().filter(|f| f.starts_with('['));
        let leaf = leaf.map_or("on a processor", |f| f);
        let name = frames[thread]
            .rsplit_once(" (")
            .map_or(frames[thread], |(name, _)| name);
        let key = (name.replace(' ', "_"), leaf.to_owned());
        *sums.entry(key).or_default() += ns.parse::<u64>().unwrap();
    }
    sums
}

fn collapsed(analysis: &Analysis<'_>) -> String {
    let mut script = Vec::new();
    perf_script::write(analysis, &mut script).unwrap();
    let mut out = Vec::new();
    let mut folder = Folder::from(Options::default());
    folder.collapse(script.as_slice(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn inferno_reads_the_time_of_each_thread_and_state_from_perf_script() {
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let analysis = Analysis::of(&tables);
    let mut text = Vec::new();
    let per_thread = folded::Options {
        per_thread: true,
        ..folded::Options::default()
    };
    folded::write(&analysis, &per_thread, &mut text).unwrap();
    let wanted = sums(&String::from_utf8(text).unwrap(), 2);
    let read = sums(&collapsed(&analysis), 0);
    assert!(wanted.len() > 20);
    assert_eq!(read, wanted);
}

#[test]
fn inferno_reads_stacks_with_inlined_and_kernel_functions() {
    let tables = drawn(
        "thread | main           | main
         state  | lock futex     | running
         time   | 10             | 5
         stack  | main           | main
                | outer :> inner | work_[k]",
    );
    let read = collapsed(&Analysis::of(&tables));
    assert_eq!(
        read,
        "main;main;outer;inner;[blocked: lock futex] 10000000\nmain;main;work_[k] 5000000\n"
    );
}

//! `dwell record --memory` of programs of the machine: what is counted is what getrusage says of each, and the answer names what
//! there is to change.

use crate::common::*;
use dwell_analysis::Analysis;
use dwell_analysis::memory::ledger;
use dwell_recording::Tables;
use dwell_recording::rows::MemoryPlaceRow;
use std::collections::BTreeSet;
use std::fs;

/// A recording of what a script of Python's starts; the script prints the process id, and what wait4() told of it and of its
/// children: their faults.
struct Waited {
    tables: Tables,
    /// Process ids of it and its children.
    pids: BTreeSet<u32>,
    minor: u64,
    major: u64,
}

impl Waited {
    /// None where one of the programs is not installed.
    fn of(script: &str, programs: &[&str]) -> Option<Waited> {
        if !installed("python3") || !programs.iter().all(|p| installed(p)) {
            return None;
        }
        let scratch = Scratch::new();
        let folder = scratch.path().display().to_string();
        let before = machine_pages();
        let command = ["--memory", "--", "python3", "-c", script, &folder];
        let recorded = record(&scratch, &command);
        let outside = machine_pages() - before;
        let said = recorded.stdout.split_whitespace();
        let said: Vec<u64> = said.map(|n| n.parse().expect("a number")).collect();
        let [pid, minor, major] = said[..] else {
            panic!("{said:?}")
        };
        let mut pids = BTreeSet::from([pid as u32]);
        // Parents come before their children.
        for process in &recorded.tables.processes {
            if pids.contains(&process.parent_pid) {
                pids.insert(process.pid);
            }
        }
        let waited = Waited {
            tables: recorded.tables,
            pids,
            minor,
            major,
        };
        waited.assert_counts(outside);
        Some(waited)
    }

    /// Places of these processes.
    fn places(&self) -> impl Iterator<Item = &MemoryPlaceRow> {
        let of = |p: &&MemoryPlaceRow| {
            let process = self
                .tables
                .processes
                .iter()
                .find(|r| r.process == p.process);
            process.is_some_and(|r| self.pids.contains(&r.pid))
        };
        self.tables.memory_places.iter().filter(of)
    }

    fn sum(&self, of: fn(&MemoryPlaceRow) -> u64) -> u64 {
        self.places().map(of).sum()
    }

    /// Faults are getrusage's, pages not more than the machine's. What happens once a process has been counted up is missing
    /// there: a few pages at its end.
    fn assert_counts(&self, outside: u64) {
        let [minor, major] = [self.sum(|p| p.minor_faults), self.sum(|p| p.major_faults)];
        println!(
            "{minor} minor and {major} major faults; {} and {} by wait4()",
            self.minor, self.major
        );
        let few = 30 * self.pids.len() as u64;
        assert!(
            minor.abs_diff(self.minor) <= few,
            "{minor}, not {}",
            self.minor
        );
        assert!(
            major.abs_diff(self.major) <= few,
            "{major}, not {}",
            self.major
        );
        let machine = self.tables.meta.memory.as_ref().expect("recorded");
        let all = self.tables.memory_places.iter();
        let allocated: u64 = all.map(|p| p.allocated_pages).sum();
        println!(
            "{allocated} pages of {} of {outside}",
            machine.machine_allocated_pages
        );
        assert!(allocated <= machine.machine_allocated_pages);
        assert!(machine.machine_allocated_pages <= outside);
        // A switch that no program saw may lose a thread some pages, never faults.
        let lost = self.tables.meta.losses["memory_sums"];
        assert!(lost <= 50, "{lost}");
    }
}

fn machine_pages() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("the kernel's");
    let lines = text.lines().filter(|l| l.starts_with("pgalloc_"));
    let numbers = lines.filter_map(|l| l.split(' ').nth(1)?.parse::<u64>().ok());
    numbers.sum()
}

/// A server whose values come and go: its pages are got where it copies values, and given back by its allocator.
#[test]
#[ignore = "needs root"]
fn what_a_server_under_load_gets_is_told_by_its_stacks() {
    const SCRIPT: &str = "
import os, subprocess, sys, time
socket = sys.argv[1] + '/socket'
server = subprocess.Popen(['redis-server', '--port', '0', '--unixsocket', socket, '--save', '', '--appendonly', 'no'],
    stdout=subprocess.DEVNULL, cwd=sys.argv[1])
while not os.path.exists(socket): time.sleep(0.02)
for i in range(3):
    subprocess.run(['redis-benchmark', '-s', socket, '-q', '-t', 'set', '-n', '60000', '-r', '60000', '-d', '4000',
        '-P', '8'], stdout=subprocess.DEVNULL, check=True)
    subprocess.run(['redis-cli', '-s', socket, 'flushall'], stdout=subprocess.DEVNULL, check=True)
server.terminate()
used = os.wait4(server.pid, 0)[2]
print(server.pid, used.ru_minflt, used.ru_majflt)";
    let Some(found) = Waited::of(SCRIPT, &["redis-server", "redis-benchmark"]) else {
        return;
    };
    assert!(found.minor > 30_000, "{}", found.minor);
    // Values are anonymous memory, got when they are first written to.
    let anonymous = found.sum(|p| p.anonymous_faults);
    assert!(near(anonymous, found.minor, 0.1, 0), "{anonymous}");
    // Of all that there is to tell, the copying of values comes first.
    let analysis = Analysis::of(&found.tables);
    let ledger = ledger(&analysis).expect("recorded");
    let first = ledger.stacks.first().expect("some");
    let process = &found.tables.processes[first.process.expect("known")];
    let names = first.path.iter().map(|f| &analysis.names.function(*f).name);
    let names: Vec<&String> = names.collect();
    println!("{} at {names:?}", process.name);
    assert!(found.pids.contains(&process.pid), "{}", process.name);
    assert!(first.sums.anonymous_faults > found.minor / 3, "{names:?}");
}

/// A compiler gets memory all along and gives it back when it ends.
#[test]
#[ignore = "needs root"]
fn what_a_compiler_gets_is_told() {
    const SCRIPT: &str = "
import os, subprocess, sys
source = sys.argv[1] + '/a.cc'
with open(source, 'w') as file:
    file.write('#include <regex>\\n#include <map>\\n#include <iostream>\\n#include <algorithm>\\n')
    for i in range(4):
        file.write('template<int N> struct S%d { int n[N + 1]; };' % i)
        file.write('bool f%d(const char *s, std::map<std::string, S%d<%d>> &m) {' % (i, i, i))
        file.write('return std::regex_match(s, std::basic_regex<char>(\"a+\")) && m.count(s); }\\n')
compiler = subprocess.Popen(['g++', '-O2', '-c', source, '-o', source + '.o'])
used = os.wait4(compiler.pid, 0)[2]
print(compiler.pid, used.ru_minflt, used.ru_majflt)";
    let Some(found) = Waited::of(SCRIPT, &["g++"]) else {
        return;
    };
    assert!(found.minor > 20_000, "{}", found.minor);
    // What it got it gave back at its end, not before.
    let [allocated, freed] = [
        found.sum(|p| p.allocated_pages),
        found.sum(|p| p.freed_pages),
    ];
    let at_end = found.places().filter(|p| p.syscall == "exit");
    let at_end: u64 = at_end.map(|p| p.freed_pages).sum();
    println!("{allocated} got, {freed} given back, {at_end} at the end");
    assert!(at_end > freed / 2 && freed <= allocated + allocated / 10);
}

/// A program of the machine allocates and drops large buffers.
#[test]
#[ignore = "needs root"]
fn large_buffers_of_a_script_are_told_by_its_stacks() {
    if !installed("python3") {
        return;
    }
    const SCRIPT: &str = "
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for i in range(15):
    buffer = bytearray(40 << 20)
    for at in range(0, len(buffer), 4096): buffer[at] = 1
    del buffer
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)";
    let scratch = Scratch::new();
    let recorded = record(&scratch, &["--memory", "--", "python3", "-c", SCRIPT]);
    let said: u64 = recorded.stdout.trim().parse().expect("a number");
    let places = &recorded.tables.memory_places;
    let minor: u64 = places.iter().map(|p| p.minor_faults).sum();
    println!("{minor} faults, {said} by the script's own word");
    assert!(said > 15 * 10_000 && minor >= said && minor <= said + 20_000);
    let unmapped: u64 = places
        .iter()
        .filter(|p| p.syscall == "munmap")
        .map(|p| p.freed_pages)
        .sum();
    assert!(near(unmapped, 15 * 10_240, 0.05, 100), "{unmapped}");
}

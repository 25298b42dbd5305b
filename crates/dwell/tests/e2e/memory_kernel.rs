//! What threads of the kernel do for memory reaches the program that made them do it, when there is only one.

use crate::common::*;
use dwell_analysis::Analysis;
use dwell_analysis::memory::ledger;
use dwell_recording::Tables;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Puts back what a file of the kernel's says.
struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    fn set(path: &'static str, value: &str) -> Setting {
        let before = fs::read_to_string(path).expect(path);
        fs::write(path, value).expect(path);
        Setting { path, before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(self.path, self.before.trim_end());
    }
}

/// Writes a setting over and over, until it is dropped.
struct Repeated {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Repeated {
    /// The kernel looks whether there is something to do whenever it is written.
    fn set(path: &'static str, value: &'static str) -> Repeated {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                fs::write(path, value).expect(path);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Repeated {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Bytes, by a line of /proc/meminfo.
fn memory(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("the kernel's");
    let line = text.lines().find(|l| l.starts_with(name)).expect(name);
    let kib = line.split_whitespace().nth(1).expect("a number");
    kib.parse::<u64>().expect("a number") << 10
}

/// What is wrong about a thread of the kernel's cost. Others on the machine are causers too.
fn attribution_mistakes(tables: &Tables, name: &str) -> BTreeMap<String, String> {
    let ledger = ledger(&Analysis::of(tables)).expect("recorded");
    let mut threads = ledger.attributed.iter();
    let thread = threads.find(|t| t.name.starts_with(name));
    let thread = thread.expect("the kernel has it");
    println!("{thread:?} of {:?}", tables.meta.memory);
    let mut wrong = BTreeMap::new();
    if thread.cpu_ns < 20 * MS {
        wrong.insert("works".to_owned(), format!("{thread:?}"));
    }
    if (thread.charged_ns as f64) < 0.9 * thread.cpu_ns as f64 {
        wrong.insert("charged".to_owned(), format!("{thread:?}"));
    }
    wrong
}

/// khugepaged joins a program's pages to huge ones.
#[test]
#[ignore = "needs root"]
fn the_cost_of_huge_pages_made_later_reaches_their_only_causer() {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    if !std::path::Path::new(FOLDER).exists() {
        return;
    }
    let _often = Setting::set(
        "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
        "10",
    );
    let _many = Setting::set(
        "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
        "65536",
    );
    wrong_every_time("collapse", || {
        let scratch = Scratch::new();
        let recorded = launch(
            &scratch,
            &["--memory"],
            "zeropage",
            &["collapse", "3", "100"],
        );
        attribution_mistakes(&recorded.tables, "khugepaged")
    });
}

/// kswapd drops pages of a file that a program reads. It begins while there is much memory still, so nobody else is short of
/// any: what is to be free is raised, what must be free is not.
#[test]
#[ignore = "needs root"]
fn the_cost_of_reclaim_reaches_its_only_causer() {
    // Of 10 000 of the machine's memory: it begins where so much is free, and ends where twice that is.
    let _early = Setting::set("/proc/sys/vm/watermark_scale_factor", "3000");
    let begins = memory("MemTotal") / 10_000 * 3000;
    wrong_every_time("reclaim", || {
        let scratch = Scratch::new();
        let path = scratch.file("holes");
        let bytes = memory("MemFree").saturating_sub(begins) + (3 << 30);
        let file = File::create(&path).expect("a file");
        file.set_len(bytes).expect("holes take no room");
        let input = format!("if={path}");
        let command = ["--memory", "--", "dd", &input, "of=/dev/null", "bs=1M"];
        let recorded = record(&scratch, &command);
        attribution_mistakes(&recorded.tables, "kswapd")
    });
}

/// kcompactd moves pages together of which a program has given back every second one.
#[test]
#[ignore = "needs root"]
fn the_cost_of_compaction_reaches_its_only_causer() {
    const WILLING: &str = "/proc/sys/vm/compaction_proactiveness";
    if !installed("python3") || fs::read(WILLING).is_err() {
        return;
    }
    const SCRIPT: &str = "
import mmap, sys, time
size = int(sys.argv[1]) >> 13 << 13
held = mmap.mmap(-1, size)
held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, size, 4096): held[at] = 1
for at in range(0, size, 8192): held.madvise(mmap.MADV_DONTNEED, at, 4096)
time.sleep(2)";
    let _willing = Setting::set(WILLING, "100");
    let _again = Repeated::set(WILLING, "100");
    wrong_every_time("compaction", || {
        let scratch = Scratch::new();
        // Of what is free then a fifth is in holes.
        let size = (memory("MemAvailable") / 3).to_string();
        let command = ["--memory", "--", "python3", "-c", SCRIPT, &size];
        let recorded = record(&scratch, &command);
        attribution_mistakes(&recorded.tables, "kcompactd")
    });
}

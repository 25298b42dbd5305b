//! Threads of the kernel that work for memory, and what they cost.
use dwell_recording::meta::KernelThreadCost;
use std::fs;

/// Their names begin so: reclaim, compaction, huge pages, merging, daemons that clear pages ahead.
const NAMES: [&str; 6] = [
    "kswapd",
    "kcompactd",
    "khugepaged",
    "ksmd",
    "kzerod",
    "oom_reaper",
];

/// What they had cost at an instant.
pub struct KernelThreads {
    /// Process id, name, and time on a processor, ns.
    seen: Vec<(u32, String, u64)>,
}

impl KernelThreads {
    /// Reads it.
    pub fn now() -> KernelThreads {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
        let seen = pids.filter_map(|pid: u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let name = name.trim_end();
            if !NAMES.iter().any(|n| name.starts_with(n)) || !is_of_kernel(pid) {
                return None;
            }
            Some((pid, name.to_owned(), cpu_ns(pid)?))
        });
        KernelThreads {
            seen: seen.collect(),
        }
    }

    /// What they have cost since.
    pub fn until_now(&self) -> Vec<KernelThreadCost> {
        let since = self
            .seen
            .iter()
            .map(|(pid, name, before)| KernelThreadCost {
                name: name.clone(),
                cpu_ns: cpu_ns(*pid).unwrap_or(*before).saturating_sub(*before),
            });
        since.collect()
    }
}

/// A thread of the kernel has no program.
fn is_of_kernel(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.is_empty())
}

/// Time on a processor, by the kernel's own count.
fn cpu_ns(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

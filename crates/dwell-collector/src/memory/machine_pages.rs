//! What the whole machine allocates and frees, by the kernel's own count.
use std::fs;

/// Pages since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachinePages {
    /// Allocated.
    pub allocated: u64,
    /// Freed.
    pub freed: u64,
}

impl MachinePages {
    /// Reads `/proc/vmstat`; nothing where it cannot be read.
    pub fn now() -> MachinePages {
        MachinePages::of(&fs::read_to_string("/proc/vmstat").unwrap_or_default())
    }

    fn of(vmstat: &str) -> MachinePages {
        let mut pages = MachinePages::default();
        for (name, n) in vmstat.lines().filter_map(|l| l.split_once(' ')) {
            let n: u64 = n.trim().parse().unwrap_or(0);
            // One count for each of the machine's zones.
            if name.starts_with("pgalloc_") {
                pages.allocated = pages.allocated.wrapping_add(n);
            } else if name == "pgfree" {
                pages.freed = n;
            }
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_added_up() {
        let text = "nr_free_pages 1\npgalloc_dma 512\npgalloc_normal 100\nallocstall_normal 3\npgfree 600\nbad";
        let wanted = MachinePages {
            allocated: 612,
            freed: 600,
        };
        assert_eq!(MachinePages::of(text), wanted);
        assert!(MachinePages::now().allocated > 0);
    }
}

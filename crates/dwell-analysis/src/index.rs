//! From ids to rows, and the sums of every site.
use dwell_recording::rows::SiteTimeRow;
use dwell_recording::tables::Tables;
use rustc_hash::FxHashMap;

/// Where the row of an id is. Ids of a sound recording are dense; those of a hostile one are anything.
#[derive(Clone, Debug)]
pub(crate) enum Positions {
    Dense(Vec<u32>),
    Sparse(FxHashMap<u32, u32>),
}

const NOWHERE: u32 = u32::MAX;

impl Positions {
    /// The last row of an id wins.
    fn of(ids: impl ExactSizeIterator<Item = u32> + Clone) -> Positions {
        let end = ids.clone().max().map_or(0, |id| id as usize + 1);
        if end > 4 * ids.len() + 1024 {
            return Positions::Sparse(ids.zip(0..).collect());
        }
        let mut rows = vec![NOWHERE; end];
        for (id, position) in ids.zip(0..) {
            rows[id as usize] = position;
        }
        Positions::Dense(rows)
    }

    /// The position of the row with this id.
    pub(crate) fn get(&self, id: u32) -> Option<usize> {
        let position = match self {
            Positions::Dense(rows) => *rows.get(id as usize)?,
            Positions::Sparse(rows) => *rows.get(&id)?,
        };
        (position != NOWHERE).then_some(position as usize)
    }
}

/// Exact sums of one site over the whole window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteSums {
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Time runnable after waking up or after preemption, ns.
    pub runnable_ns: u64,
    /// Number of waits.
    pub count: u64,
    /// The longest single wait, ns.
    pub max_ns: u64,
}

impl SiteSums {
    fn add(&mut self, row: &SiteTimeRow) {
        self.blocked_ns = self.blocked_ns.saturating_add(row.blocked_ns);
        self.runnable_ns = self.runnable_ns.saturating_add(row.runnable_ns);
        self.count = self.count.saturating_add(row.count);
        self.max_ns = self.max_ns.max(row.max_ns);
    }
}

/// Positions of rows by id. A *position* is the place in the table's vector.
#[derive(Clone, Debug)]
pub struct Index {
    processes: Positions,
    threads: Positions,
    sites: Positions,
    stacks: Positions,
    frames: Positions,
    /// By position in `sites`.
    pub(crate) site_sums: Vec<SiteSums>,
    /// Time in `site_times` whose site is in no table, ns.
    pub(crate) orphan_site_ns: u64,
}

impl Index {
    /// Reads every id once.
    pub fn of(tables: &Tables) -> Index {
        let mut index = Index {
            processes: Positions::of(tables.processes.iter().map(|r| r.process)),
            threads: Positions::of(tables.threads.iter().map(|r| r.thread)),
            sites: Positions::of(tables.sites.iter().map(|r| r.site)),
            stacks: Positions::of(tables.stacks.iter().map(|r| r.stack)),
            frames: Positions::of(tables.frames.iter().map(|r| r.frame)),
            site_sums: vec![SiteSums::default(); tables.sites.len()],
            orphan_site_ns: 0,
        };
        for row in &tables.site_times {
            match index.site(row.site) {
                Some(site) => index.site_sums[site].add(row),
                None => {
                    let ns = row.blocked_ns.saturating_add(row.runnable_ns);
                    index.orphan_site_ns = index.orphan_site_ns.saturating_add(ns);
                }
            }
        }
        index
    }

    /// Position of a process.
    pub fn process(&self, id: u32) -> Option<usize> {
        self.processes.get(id)
    }

    /// Position of a thread.
    pub fn thread(&self, id: u32) -> Option<usize> {
        self.threads.get(id)
    }

    /// Position of a site.
    pub fn site(&self, id: u32) -> Option<usize> {
        self.sites.get(id)
    }

    /// Position of a stack.
    pub fn stack(&self, id: u32) -> Option<usize> {
        self.stacks.get(id)
    }

    /// Position of a frame.
    pub fn frame(&self, id: u32) -> Option<usize> {
        self.frames.get(id)
    }

    /// Exact sums of the site at this position.
    pub fn site_sums(&self, site: usize) -> SiteSums {
        self.site_sums[site]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_apart_ids_cost_no_memory() {
        let positions = Positions::of([7, u32::MAX, 7].into_iter());
        assert!(matches!(positions, Positions::Sparse(_)));
        assert_eq!(positions.get(7), Some(2));
        assert_eq!(positions.get(u32::MAX), Some(1));
        assert_eq!(positions.get(8), None);
    }

    #[test]
    fn dense_ids_are_found_and_missing_ones_are_not() {
        let positions = Positions::of([3, 0].into_iter());
        assert_eq!(positions.get(3), Some(0));
        assert_eq!(positions.get(0), Some(1));
        assert_eq!(positions.get(1), None);
        assert_eq!(positions.get(4), None);
    }
}

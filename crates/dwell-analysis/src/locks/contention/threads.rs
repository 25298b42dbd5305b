//! Threads as locks name them: by their number in their own PID namespace.
use crate::analysis::Analysis;
use dwell_recording::rows::ThreadRow;
use rustc_hash::FxHashMap;

/// Threads by process and number in their own PID namespace.
pub(in crate::locks) struct Threads<'t> {
    positions: FxHashMap<(u32, u32), Vec<usize>>,
    rows: &'t [ThreadRow],
}

impl<'t> Threads<'t> {
    pub fn of(analysis: &Analysis<'t>) -> Threads<'t> {
        let rows = &analysis.tables.threads;
        let mut positions: FxHashMap<(u32, u32), Vec<usize>> = FxHashMap::default();
        for (position, row) in rows.iter().enumerate() {
            // Of a thread that began in the window only the outer number may be known.
            let number = if row.ns_tid == 0 { row.tid } else { row.ns_tid };
            let of = positions.entry((row.process, number)).or_default();
            of.push(position);
        }
        Threads { positions, rows }
    }

    /// The thread that had this number at an instant, as near as may be.
    pub fn position(&self, process: u32, ns_tid: u32, at_ns: u64) -> Option<usize> {
        let positions = self.positions.get(&(process, ns_tid))?;
        let distance = |p: &&usize| {
            let row = &self.rows[**p];
            let before = row.start_ns.saturating_sub(at_ns);
            before.max(at_ns.saturating_sub(row.until_ns))
        };
        positions.iter().min_by_key(distance).copied()
    }

    pub fn label(
        &self,
        analysis: &Analysis<'_>,
        process: u32,
        ns_tid: u32,
        at_ns: u64,
    ) -> Option<usize> {
        let position = self.position(process, ns_tid, at_ns)?;
        Some(analysis.groups.label_of_thread(position))
    }
}

//! Where locks come from that have no name.
use dwell_analysis::Analysis;
use dwell_recording::rows::{LockBlockRow, block_part};
use std::collections::HashMap;

/// What tells one from another: process and address.
type Place = (u32, u64);

/// Who made locks, or wanted them first, as far as is known.
pub(super) struct Origins {
    frames: HashMap<Place, Origin>,
}

#[derive(Clone, Copy)]
struct Origin {
    is_made: bool,
    /// Of what was seen first.
    at_ns: u64,
    frame: u32,
}

impl Origin {
    fn of(row: &LockBlockRow) -> Option<Origin> {
        let is_made = row.part == block_part::MADE;
        let is_wait = row.part == block_part::WAIT;
        let frame = row.frame.filter(|_| is_made || is_wait)?;
        Some(Origin {
            is_made,
            at_ns: row.start_ns.unwrap_or(0),
            frame,
        })
    }

    fn is_better(&self, other: &Origin) -> bool {
        (!self.is_made, self.at_ns) < (!other.is_made, other.at_ns)
    }
}

impl Origins {
    /// Of all locks of a recording.
    pub fn of(analysis: &Analysis<'_>) -> Origins {
        let locks = analysis.tables.locks.iter();
        let places: HashMap<u32, Place> = locks.map(|l| (l.lock, (l.process, l.address))).collect();
        let mut frames: HashMap<Place, Origin> = HashMap::new();
        for row in &analysis.tables.lock_blocks {
            let (Some(place), Some(origin)) = (places.get(&row.lock), Origin::of(row)) else {
                continue;
            };
            let known = frames.entry(*place).or_insert(origin);
            if origin.is_better(known) {
                *known = origin;
            }
        }
        Origins { frames }
    }

    /// A name for the lock at an address: where it is, and who made it, or else wanted it first.
    pub fn name(&self, analysis: &Analysis<'_>, process: u32, address: u64) -> Option<String> {
        let origin = self.frames.get(&(process, address))?;
        let position = analysis.index.frame(origin.frame)?;
        let (function, symbol) = analysis.names.frame(position).next_back()?;
        let function = &analysis.names.function(function).name;
        if !origin.is_made {
            return Some(format!("{address:#x} first wanted in {function}"));
        }
        let symbol = symbol.and_then(|s| analysis.tables.symbols.get(s as usize));
        let line = symbol.and_then(|s| {
            let file = s.file.as_ref()?.rsplit('/').next()?;
            Some(format!(" at {file}:{}", s.line?))
        });
        let line = line.unwrap_or_default();
        Some(format!("{address:#x} made in {function}{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_recording::Tables;
    use dwell_recording::rows::{FrameRow, LockRow, SymbolRow};

    fn names(rows: &[(&str, u64, u32)]) -> Option<String> {
        let row = |&(part, start_ns, frame): &(&str, u64, u32)| LockBlockRow {
            process: 1,
            lock: 7,
            part: part.into(),
            start_ns: (start_ns != 0).then_some(start_ns),
            frame: Some(frame),
            ..LockBlockRow::default()
        };
        let frames = 0..4;
        let tables = Tables {
            locks: vec![LockRow {
                lock: 7,
                process: 1,
                address: 0x1000,
                ..LockRow::default()
            }],
            frames: frames
                .clone()
                .map(|frame| FrameRow {
                    frame,
                    ..FrameRow::default()
                })
                .collect(),
            symbols: frames
                .map(|frame| SymbolRow {
                    frame,
                    function: format!("function{frame}"),
                    file: (frame == 3).then(|| "/src/a.c".to_owned()),
                    line: Some(9),
                    ..SymbolRow::default()
                })
                .collect(),
            lock_blocks: rows.iter().map(row).collect(),
            ..Tables::default()
        };
        let analysis = Analysis::of(&tables);
        let origins = Origins::of(&analysis);
        assert_eq!(origins.name(&analysis, 2, 0x1000), None);
        origins.name(&analysis, 1, 0x1000)
    }

    #[test]
    fn who_made_a_lock_goes_before_who_wanted_it_first() {
        let waits = [("hold", 50, 0), ("wait", 200, 1), ("wait", 100, 2)];
        assert_eq!(
            names(&waits).as_deref(),
            Some("0x1000 first wanted in function2")
        );
        let made = [&waits[..], &[("made", 0, 3)]].concat();
        assert_eq!(
            names(&made).as_deref(),
            Some("0x1000 made in function3 at a.c:9")
        );
        assert_eq!(names(&waits[..1]), None);
    }
}

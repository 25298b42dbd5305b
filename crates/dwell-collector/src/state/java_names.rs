//! Frames of code that JVMs compiled get their names at once: it may be gone when the recording ends.
use crate::intern::{Interner, Place};
use crate::java::OfProcess;
use crate::processes::Processes;
use dwell_hotspot::Kept;
use dwell_recording::rows::SymbolRow;
use hashbrown::{HashMap, HashSet};

/// See the module's text.
#[derive(Default)]
pub(super) struct JavaNames {
    /// How many frames were looked at.
    seen: usize,
    named: HashSet<u32>,
    new: Vec<SymbolRow>,
}

impl JavaNames {
    /// Names frames that are new since the last call.
    pub fn update(&mut self, interner: &Interner, processes: &mut Processes) {
        let places = interner.places();
        let mut memories = HashMap::new();
        for (frame, place) in (self.seen as u32..).zip(&places[self.seen..]) {
            let Place::Jit {
                process, address, ..
            } = *place
            else {
                continue;
            };
            let row = &processes.get(process).row;
            // Its number may be another's by now.
            if row.end_ns.is_some() {
                continue;
            }
            let pid = row.pid;
            let memory = memories
                .entry(process)
                .or_insert_with(|| Kept::new(OfProcess(pid)));
            let methods = processes.java(process).methods(memory, address);
            if methods.is_empty() {
                continue;
            }
            self.named.insert(frame);
            let outermost = methods.len() as u32 - 1;
            let rows = methods
                .into_iter()
                .zip(0..)
                .map(|(method, depth)| SymbolRow {
                    frame,
                    depth,
                    function: method.full_name(),
                    file: method.file,
                    line: method.line,
                    inlined: depth < outermost,
                });
            self.new.extend(rows);
        }
        self.seen = places.len();
    }

    pub fn has(&self, frame: u32) -> bool {
        self.named.contains(&frame)
    }

    /// The names that are new since the last call.
    pub fn take(&mut self) -> Vec<SymbolRow> {
        std::mem::take(&mut self.new)
    }
}

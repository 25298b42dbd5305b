//! Frames of code that JVMs compiled get their names at once: it may be gone when the recording ends.
use crate::intern::{Interner, Place};
use crate::processes::Processes;
use dwell_recording::rows::SymbolRow;
use hashbrown::HashSet;

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
        for (frame, place) in (self.seen as u32..).zip(&places[self.seen..]) {
            let Place::Jit { process, address } = *place else {
                continue;
            };
            if let Some(function) = processes.java_name(process, address) {
                self.named.insert(frame);
                self.new.push(SymbolRow {
                    frame,
                    function,
                    ..SymbolRow::default()
                });
            }
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

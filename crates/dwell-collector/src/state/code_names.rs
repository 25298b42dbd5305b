//! Frames of code that JVMs compiled, and of what Pythons and engines of JavaScript execute, get their names at once: it may be
//! gone when the recording ends.
use crate::intern::{Interner, Place};
use crate::java::Java;
use crate::processes::{OfProcess, Process, Processes};
use dwell_abi::events::interpreted;
use dwell_maps::{Kept, Memory};
use dwell_recording::rows::SymbolRow;
use hashbrown::{HashMap, HashSet};

/// No process has this number.
const NOBODY: u32 = 0;

/// See the module's text.
#[derive(Default)]
pub(super) struct CodeNames {
    /// How many frames were looked at.
    seen: usize,
    named: HashSet<u32>,
    new: Vec<SymbolRow>,
}

impl CodeNames {
    /// Names frames that are new since the last call.
    pub fn update(&mut self, interner: &Interner, processes: &mut Processes) {
        let places = interner.places();
        let mut memories = HashMap::new();
        for (frame, place) in (self.seen as u32..).zip(&places[self.seen..]) {
            let Place::Jit {
                process,
                address,
                generation,
            } = *place
            else {
                continue;
            };
            let row = &processes.get(process).row;
            let (pid, is_over) = (row.pid, row.end_ns.is_some());
            let memory = memories
                .entry(process)
                // Its number may be another's by now.
                .or_insert_with(|| Kept::new(OfProcess(if is_over { NOBODY } else { pid })));
            let rows = match row_of_code(processes.get_mut(process), memory, address, generation) {
                Some(row) => vec![SymbolRow { frame, ..row }],
                None => java_rows(processes.java(process), memory, frame, address),
            };
            if !rows.is_empty() {
                self.named.insert(frame);
                self.new.extend(rows);
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

/// What code of Python is called that was gone before it got its name, as of modules that are imported.
const GONE_PYTHON: &str = "[Python]";
/// Such functions of JavaScript.
const GONE_JAVASCRIPT: &str = "[JavaScript]";

/// The row of a frame that a Python executes, or an engine of JavaScript, but for its number.
fn row_of_code(
    process: &mut Process,
    memory: &impl Memory,
    word: u64,
    identity: u32,
) -> Option<SymbolRow> {
    let (code, instruction) = interpreted(word)?;
    if let Some(code) = process.python.code(memory, (code, identity), instruction) {
        return Some(SymbolRow {
            function: code.function,
            file: Some(code.file),
            line: code.line,
            ..SymbolRow::default()
        });
    }
    if let Some(function) = process.javascript.function(memory, (code, identity)) {
        return Some(SymbolRow {
            function: function.called().into(),
            file: function.file.clone(),
            line: function.line,
            ..SymbolRow::default()
        });
    }
    let gone = match (process.python.is_known(), process.javascript.is_known()) {
        (true, _) => GONE_PYTHON,
        (false, true) => GONE_JAVASCRIPT,
        (false, false) => return None,
    };
    Some(SymbolRow {
        function: gone.into(),
        ..SymbolRow::default()
    })
}

/// The rows of a frame of a JVM: of all methods that a compiler put there.
fn java_rows(java: &mut Java, memory: &impl Memory, frame: u32, word: u64) -> Vec<SymbolRow> {
    let methods = java.methods(memory, word);
    let outermost = methods.len().saturating_sub(1) as u32;
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
    rows.collect()
}

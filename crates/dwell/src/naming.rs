//! Gives the frames of a recording their names.
use dwell_collector::{Finished, Origin, Unnamed};
use dwell_recording::RecordingError;
use dwell_recording::rows::SymbolRow;
use dwell_symbols::{Debuginfod, JitProcess, Module, Options, Symbol, Symbolizer};
use std::path::PathBuf;

/// A symbolizer with the user's settings.
pub fn symbolizer() -> Symbolizer {
    Symbolizer::new(Options { debuginfod: Debuginfod::from_env(), ..Options::default() })
}

/// Names every frame of a recording that has just been made; returns what a person should know.
pub fn name_frames(finished: &mut Finished) -> Result<Vec<String>, RecordingError> {
    let mut symbolizer = symbolizer();
    for group in finished.unnamed() {
        let rows = name_group(&mut symbolizer, &group);
        finished.writer.append(rows)?;
    }
    Ok(symbolizer.notes())
}

/// The names of frames of one origin.
pub fn name_group(symbolizer: &mut Symbolizer, group: &Unnamed) -> Vec<SymbolRow> {
    let addresses: Vec<u64> = group.frames.iter().map(|f| f.1).collect();
    let names = match &group.origin {
        Origin::Module { file, path, build_id } => {
            let build_id = (!build_id.is_empty()).then_some(build_id.as_slice());
            symbolizer.module(&Module { file, path, build_id, root: None }, &addresses)
        }
        Origin::Kernel => symbolizer.kernel(&addresses),
        Origin::Jit { pid, ns_pid } => {
            let root = PathBuf::from(format!("/proc/{pid}/root"));
            let root = root.exists().then_some(root);
            let process = JitProcess { pid: *pid, ns_pid: *ns_pid, root: root.as_deref(), uid: None, dumps: &[] };
            symbolizer.jit(&process, &addresses)
        }
    };
    group.frames.iter().zip(names).flat_map(|(&(frame, _), chain)| symbol_rows(frame, chain)).collect()
}

fn symbol_rows(frame: u32, chain: Vec<Symbol>) -> impl Iterator<Item = SymbolRow> {
    chain.into_iter().zip(0..).map(move |(symbol, depth)| SymbolRow {
        frame,
        depth,
        function: symbol.function,
        file: symbol.file,
        line: symbol.line,
        inlined: symbol.inlined,
    })
}

//! Gives the frames of a recording their names, and tells which of them spin.
use crate::spinning::Leaves;
use dwell_collector::{Finished, ModuleOrigin, Origin, Unnamed};
use dwell_recording::rows::{FrameRow, FutexRow, SymbolRow, state};
use dwell_recording::{RecordingError, Tables};
use dwell_symbols::{Debuginfod, JitProcess, Module, Options, Symbol, Symbolizer};
use std::collections::{BTreeMap, HashSet};

/// What our code in a target is called.
const OWN_CODE: &str = "[dwell counts locks]";

/// A symbolizer with the user's settings.
pub fn symbolizer() -> Symbolizer {
    Symbolizer::new(Options {
        debuginfod: Debuginfod::from_env(),
        ..Options::default()
    })
}

/// Names every frame of a recording that has just been made, and judges those that running threads stood
/// at; returns what a person should know.
pub fn name_frames(finished: &mut Finished) -> Result<Vec<String>, RecordingError> {
    let mut symbolizer = symbolizer();
    if let Some(list) = finished.kernel_symbols.take() {
        symbolizer.use_earlier_kernel_symbols(&list);
    }
    let mut leaves = Leaves::of(finished.running_stacks());
    let mut appended = Ok(());
    for group in finished.unnamed() {
        let rows = name_group(&mut symbolizer, &group);
        leaves.judge(&symbolizer, &group, &rows);
        // A disk without room for some of the names may have it for others.
        appended = appended.and(finished.writer.append(rows));
    }
    let judged = leaves.spinning().iter().map(|(frame, spins)| FrameRow {
        spinning: Some(*spins),
        ..finished.frame_row(*frame)
    });
    let judged: Vec<FrameRow> = judged.collect();
    appended = appended.and(finished.writer.append(judged));
    for mut group in finished.unnamed_futexes() {
        let module = module_of(&group.module);
        name_futexes(&mut symbolizer, &module, &mut group.rows);
        appended = appended.and(finished.writer.append(group.rows));
    }
    appended.map(|()| symbolizer.notes())
}

/// The file as the symbolizer wants it.
pub fn module_of(origin: &ModuleOrigin) -> Module<'_> {
    let build_id = &origin.build_id;
    Module {
        file: &origin.file,
        path: &origin.path,
        build_id: (!build_id.is_empty()).then_some(build_id),
        root: origin.root.as_deref(),
    }
}

/// Names the variables that words of one file lie in.
fn name_futexes<'r>(
    symbolizer: &mut Symbolizer,
    module: &Module<'_>,
    rows: impl IntoIterator<Item = &'r mut FutexRow>,
) {
    let rows: Vec<&mut FutexRow> = rows.into_iter().filter(|r| r.stated.is_some()).collect();
    let addresses: Vec<u64> = rows.iter().filter_map(|r| r.stated).collect();
    for (row, variable) in rows
        .into_iter()
        .zip(symbolizer.variables(module, &addresses))
    {
        if let Some(variable) = variable {
            row.symbol = variable.name;
            row.offset = Some(variable.offset);
        }
    }
}

/// The names of frames of one origin.
pub fn name_group(symbolizer: &mut Symbolizer, group: &Unnamed) -> Vec<SymbolRow> {
    let addresses: Vec<u64> = group.frames.iter().map(|f| f.1).collect();
    let names = match &group.origin {
        Origin::Module(origin) => symbolizer.module(&module_of(origin), &addresses),
        Origin::Kernel => symbolizer.kernel(&addresses),
        Origin::Own => addresses.iter().map(|_| known(OWN_CODE)).collect(),
        Origin::KernelCode { name } => addresses.iter().map(|_| known(name)).collect(),
        Origin::Jit { pid, ns_pid, root } => {
            let process = JitProcess {
                pid: *pid,
                ns_pid: *ns_pid,
                root: root.as_deref(),
                uid: None,
                dumps: &[],
            };
            symbolizer.jit(&process, &addresses)
        }
    };
    group
        .frames
        .iter()
        .zip(names)
        .flat_map(|(&(frame, _), chain)| symbol_rows(frame, chain))
        .collect()
}

/// Names the frames of a recording that was cut short before it got its names: from the files that
/// are still here with the same build id, and from the kernel if it still is the same boot.
pub fn name_tables(tables: &mut Tables) {
    let named: HashSet<u32> = tables.symbols.iter().map(|s| s.frame).collect();
    let mut groups: BTreeMap<(&str, &str), Vec<(u32, u64)>> = BTreeMap::new();
    for frame in tables.frames.iter().filter(|f| !named.contains(&f.frame)) {
        groups
            .entry((&frame.module, &frame.build_id))
            .or_default()
            .push((frame.frame, frame.address));
    }
    let mut symbolizer = symbolizer();
    let mut leaves = Leaves::of(running_stacks(tables));
    let mut rows = Vec::new();
    for ((module, build_id), mut frames) in groups {
        frames.sort_by_key(|f| f.1);
        let origin = match module {
            "[kernel]" if same_boot(tables) => Origin::Kernel,
            _ if build_id.is_empty() => continue,
            path => Origin::Module(file(path, build_id)),
        };
        let group = Unnamed { origin, frames };
        let names = name_group(&mut symbolizer, &group);
        leaves.judge(&symbolizer, &group, &names);
        rows.extend(names);
    }
    for frame in &mut tables.frames {
        let judged = leaves.spinning().get(&frame.frame);
        frame.spinning = frame.spinning.or(judged.copied());
    }
    let mut futexes: BTreeMap<(String, String), Vec<&mut FutexRow>> = BTreeMap::new();
    for row in tables.futexes.iter_mut().filter(|r| !r.build_id.is_empty()) {
        let place = (row.module.clone(), row.build_id.clone());
        futexes.entry(place).or_default().push(row);
    }
    for ((module, build_id), rows) in futexes {
        let origin = file(&module, &build_id);
        name_futexes(&mut symbolizer, &module_of(&origin), rows);
    }
    tables.symbols.extend(rows);
    tables.symbols.sort_by_key(|s| (s.frame, s.depth));
}

/// The stacks at which threads were seen running.
pub fn running_stacks(tables: &Tables) -> impl Iterator<Item = &[u32]> {
    let running = tables.samples.iter().filter(|s| s.state == state::RUNNING);
    let seen: HashSet<u32> = running.map(|s| s.stack).collect();
    let stacks = tables.stacks.iter();
    stacks
        .filter(move |s| seen.contains(&s.stack))
        .map(|s| s.frames.as_slice())
}

/// A file that may still be here.
fn file(path: &str, build_id: &str) -> ModuleOrigin {
    ModuleOrigin {
        file: path.into(),
        path: path.into(),
        build_id: from_hex(build_id),
        root: None,
    }
}

/// True when this machine has not been started anew since.
fn same_boot(tables: &Tables) -> bool {
    const SLACK_NS: i128 = 2_000_000_000; // what setting the clock may have moved
    let anchor = &tables.meta.clock;
    let now = dwell_collector::clock_anchor();
    let boot = |realtime: u64, boottime: u64| i128::from(realtime) - i128::from(boottime);
    (boot(anchor.realtime_ns, anchor.boottime_ns) - boot(now.realtime_ns, now.boottime_ns)).abs()
        < SLACK_NS
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
    let (pairs, _) = text.as_bytes().as_chunks();
    let bytes = pairs
        .iter()
        .map(|&[high, low]| digit(high) << 4 | digit(low));
    bytes.collect()
}

/// A function of which no more than the name is known.
fn known(name: &str) -> Vec<Symbol> {
    vec![Symbol {
        function: name.into(),
        ..Symbol::default()
    }]
}

fn symbol_rows(frame: u32, chain: Vec<Symbol>) -> impl Iterator<Item = SymbolRow> {
    chain
        .into_iter()
        .zip(0..)
        .map(move |(symbol, depth)| SymbolRow {
            frame,
            depth,
            function: symbol.function,
            file: symbol.file,
            line: symbol.line,
            inlined: symbol.inlined,
        })
}

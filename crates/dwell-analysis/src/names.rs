//! Stacks of addresses into stacks of functions.
use crate::index::Index;
use dwell_recording::rows::{FrameRow, SymbolRow};
use dwell_recording::tables::Tables;
use rustc_hash::FxHashMap;

/// A function as answers name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Demangled name in full; `[module+0xaddress]` where no name is known.
    pub name: String,
    /// True in the kernel.
    pub kernel: bool,
}

/// Place in [`Names::functions`].
pub type FunctionId = u32;

/// Place among the distinct paths.
pub type PathId = u32;

/// Why there is no stack to show for some time. It is shown as a stack of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Missing {
    /// No stack was taken at this site, nor at a like one.
    NoStackTaken,
    /// The thread waited somewhere, the record of where was lost.
    SiteUnknown,
    /// The thread ran for too short to be sampled, and so did its likes.
    NotSampled,
    /// A stack was taken, its frames are not in the recording.
    StackLost,
    /// It was not the thread that ran.
    Stolen,
    /// What the thread did is not known.
    Lost,
}

impl Missing {
    /// Every kind.
    pub const ALL: [Missing; 6] = [
        Missing::NoStackTaken,
        Missing::SiteUnknown,
        Missing::NotSampled,
        Missing::StackLost,
        Missing::Stolen,
        Missing::Lost,
    ];

    /// The name of the frame that stands for it.
    pub fn frame(self) -> &'static str {
        match self {
            Missing::NoStackTaken => "[no stack taken]",
            Missing::SiteUnknown => "[site unknown]",
            Missing::NotSampled => "[not sampled]",
            Missing::StackLost => "[stack lost]",
            Missing::Stolen => "[stolen]",
            Missing::Lost => "[lost]",
        }
    }
}

/// Which stack some time belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StackRef {
    /// Position in `stacks`.
    Taken(u32),
    /// There is none.
    Missing(Missing),
}

/// The path with the most time; of equals always the same one, in whatever order a hash table has them.
pub(crate) fn heaviest<P: Ord + Copy>(ns_by_path: FxHashMap<P, u64>) -> Option<P> {
    let most = ns_by_path.into_iter().max_by_key(|(path, ns)| (*ns, *path));
    most.map(|(path, _)| path)
}

/// Names of every frame and stack of a recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Distinct functions.
    pub functions: Vec<Function>,
    /// By frame position: where its functions start in `frame_functions`.
    frame_start: Vec<u32>,
    /// Functions of every frame, outermost first.
    frame_functions: Vec<FunctionId>,
    /// Positions in `symbols`, in step with `frame_functions`; none for a frame without a name.
    frame_symbols: Vec<Option<u32>>,
    paths: Vec<Vec<FunctionId>>,
    stack_path: Vec<PathId>,
    missing_path: [PathId; Missing::ALL.len()],
}

impl Names {
    /// Names everything once.
    pub fn of(tables: &Tables, index: &Index) -> Names {
        let mut naming = Naming::default();
        naming.frames(tables, index);
        for stack in &tables.stacks {
            let path = naming.path_of(stack.end.as_str(), &stack.frames, index);
            let path = naming.path(path);
            naming.names.stack_path.push(path);
        }
        for missing in Missing::ALL {
            let function = naming.function(missing.frame().to_owned(), false);
            naming.names.missing_path[missing as usize] = naming.path(vec![function]);
        }
        naming.names
    }

    /// The path of a stack.
    pub fn path_of(&self, stack: StackRef) -> PathId {
        match stack {
            StackRef::Taken(position) => self.stack_path[position as usize],
            StackRef::Missing(missing) => self.missing_path[missing as usize],
        }
    }

    /// The functions of a path, outermost first.
    pub fn path(&self, path: PathId) -> &[FunctionId] {
        &self.paths[path as usize]
    }

    /// How many distinct paths there are.
    pub fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// A function by id.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id as usize]
    }

    /// The functions of the frame at this position, outermost first, each with the position of its
    /// row in `symbols`, where it has one.
    pub fn frame(
        &self,
        frame: usize,
    ) -> impl DoubleEndedIterator<Item = (FunctionId, Option<u32>)> + '_ {
        let range = self.frame_start[frame] as usize..self.frame_start[frame + 1] as usize;
        let symbols = &self.frame_symbols[range.clone()];
        self.frame_functions[range]
            .iter()
            .copied()
            .zip(symbols.iter().copied())
    }
}

/// How the unwinder calls a stack that reached its end, and one that has no user part.
const WHOLE: [&str; 3] = ["complete", "no_user_stack", ""];

/// How the outermost function of a path is called whose stack is cut short.
pub const CUT_SHORT: &str = "[cut short: ";

/// Why the user part of a stack is cut short; none when it is whole.
pub fn cut_short(end: &str) -> Option<&str> {
    (!WHOLE.contains(&end)).then_some(end)
}

#[derive(Default)]
struct Naming {
    names: Names,
    function_ids: FxHashMap<Function, FunctionId>,
    path_ids: FxHashMap<Vec<FunctionId>, PathId>,
}

impl Naming {
    fn function(&mut self, name: String, kernel: bool) -> FunctionId {
        let names = &mut self.names;
        *self
            .function_ids
            .entry(Function { name, kernel })
            .or_insert_with_key(|function| {
                names.functions.push(function.clone());
                names.functions.len() as FunctionId - 1
            })
    }

    fn path(&mut self, functions: Vec<FunctionId>) -> PathId {
        let names = &mut self.names;
        *self
            .path_ids
            .entry(functions)
            .or_insert_with_key(|functions| {
                names.paths.push(functions.clone());
                names.paths.len() as PathId - 1
            })
    }

    fn frames(&mut self, tables: &Tables, index: &Index) {
        let symbols = symbols_by_frame(tables, index);
        let mut next = symbols.iter().peekable();
        for (position, frame) in tables.frames.iter().enumerate() {
            let kernel = frame.kind == "kernel";
            self.names
                .frame_start
                .push(self.names.frame_functions.len() as u32);
            let mut named = false;
            while let Some((_, symbol)) = next.next_if(|(of, _)| *of == position) {
                let row: &SymbolRow = &tables.symbols[*symbol as usize];
                let function = self.function(row.function.clone(), kernel);
                self.names.frame_functions.push(function);
                self.names.frame_symbols.push(Some(*symbol));
                named = true;
            }
            if !named {
                let function = self.function(address_name(frame), kernel);
                self.names.frame_functions.push(function);
                self.names.frame_symbols.push(None);
            }
        }
        self.names
            .frame_start
            .push(self.names.frame_functions.len() as u32);
    }

    fn path_of(&mut self, end: &str, frames: &[u32], index: &Index) -> Vec<FunctionId> {
        let mut path = Vec::with_capacity(frames.len() + 1);
        if let Some(why) = cut_short(end) {
            path.push(self.function(format!("{CUT_SHORT}{why}]"), false));
        }
        for id in frames {
            match index.frame(*id) {
                Some(frame) => path.extend(self.names.frame(frame).map(|(function, _)| function)),
                None => path.push(self.function("[frame lost]".to_owned(), false)),
            }
        }
        if path.is_empty() {
            path.push(self.function("[no frames]".to_owned(), false));
        }
        path
    }
}

/// (frame position, symbol position), by frame and then outermost first.
fn symbols_by_frame(tables: &Tables, index: &Index) -> Vec<(usize, u32)> {
    let mut rows: Vec<(usize, u32)> = tables
        .symbols
        .iter()
        .zip(0..)
        .filter_map(|(row, position)| Some((index.frame(row.frame)?, position)))
        .collect();
    rows.sort_by_key(|(frame, row)| {
        (
            *frame,
            std::cmp::Reverse(tables.symbols[*row as usize].depth),
        )
    });
    rows.dedup_by_key(|(frame, row)| (*frame, tables.symbols[*row as usize].depth));
    rows
}

/// What to call a place in code that has no name.
fn address_name(frame: &FrameRow) -> String {
    let base = frame.module.rsplit('/').next().unwrap_or_default();
    let base = base.trim_start_matches('[').trim_end_matches(']');
    let base = if base.is_empty() {
        frame.kind.as_str()
    } else {
        base
    };
    format!("[{base}+{:#x}]", frame.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_recording::rows::StackRow;

    fn frame(frame: u32, kind: &str, module: &str, address: u64) -> FrameRow {
        FrameRow {
            frame,
            kind: kind.into(),
            module: module.into(),
            address,
            ..FrameRow::default()
        }
    }

    fn symbol(frame: u32, depth: u32, function: &str) -> SymbolRow {
        SymbolRow {
            frame,
            depth,
            function: function.into(),
            ..SymbolRow::default()
        }
    }

    fn drawn(tables: &Tables) -> Vec<String> {
        let names = Names::of(tables, &Index::of(tables));
        let path = names.path(names.path_of(StackRef::Taken(0)));
        path.iter()
            .map(|f| names.function(*f).name.clone())
            .collect()
    }

    #[test]
    fn inlined_functions_stand_under_their_caller() {
        let tables = Tables {
            frames: vec![
                frame(5, "user", "/bin/x", 16),
                frame(6, "kernel", "[kernel]", 0xff),
            ],
            symbols: vec![
                symbol(5, 0, "inner"),
                symbol(5, 2, "outer"),
                symbol(5, 1, "middle"),
            ],
            stacks: vec![StackRow {
                stack: 0,
                frames: vec![5, 6, 9],
                end: "complete".into(),
            }],
            ..Tables::default()
        };
        assert_eq!(
            drawn(&tables),
            ["outer", "middle", "inner", "[kernel+0xff]", "[frame lost]"]
        );
    }

    #[test]
    fn a_cut_stack_says_so_and_an_unnamed_frame_has_its_module() {
        let tables = Tables {
            frames: vec![frame(0, "user", "/usr/lib/libm.so.6", 0x1a0)],
            stacks: vec![StackRow {
                stack: 0,
                frames: vec![0],
                end: "no_unwind_info".into(),
            }],
            ..Tables::default()
        };
        assert_eq!(
            drawn(&tables),
            ["[cut short: no_unwind_info]", "[libm.so.6+0x1a0]"]
        );
    }
}

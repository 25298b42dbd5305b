//! The tables that all threads refer to.
use super::category;
use crate::frames::Frames;
use dwell_analysis::names::StackRef;
use dwell_analysis::{Analysis, Moment, State};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// A frame: its function, and at the end of a stack the category of what the thread did.
type FrameKey = (u32, Option<(u32, u32)>);

pub(super) struct Shared<'a, 't> {
    frames: Frames<'a, 't>,
    /// Further strings, behind the functions' names once those are all known.
    strings: Vec<&'static str>,
    frame_ids: FxHashMap<FrameKey, u32>,
    frame_table: Vec<FrameKey>,
    stack_ids: FxHashMap<(Option<u32>, u32), u32>,
    /// Frame, and how far in front of it its caller is; 0 for none.
    stack_table: Vec<(u32, u32)>,
    moments: FxHashMap<(StackRef, State, u32), u32>,
}

impl<'a, 't> Shared<'a, 't> {
    pub fn of(analysis: &'a Analysis<'t>) -> Shared<'a, 't> {
        Shared {
            frames: Frames::of(analysis),
            strings: Vec::new(),
            frame_ids: FxHashMap::default(),
            frame_table: Vec::new(),
            stack_ids: FxHashMap::default(),
            stack_table: Vec::new(),
            moments: FxHashMap::default(),
        }
    }

    /// The number of a string. Strings come first in the table, functions' names behind them.
    pub fn string(&mut self, text: &'static str) -> u32 {
        let known = self.strings.iter().position(|s| *s == text);
        known.unwrap_or_else(|| {
            self.strings.push(text);
            self.strings.len() - 1
        }) as u32
    }

    /// The number of a moment's stack.
    pub fn stack(&mut self, moment: &Moment) -> u32 {
        let key = (moment.stack, moment.state, moment.syscall);
        if let Some(stack) = self.moments.get(&key) {
            return *stack;
        }
        let functions = self.frames.of_moment(moment);
        let mut prefix = None;
        for (at, function) in functions.iter().enumerate() {
            let last = at + 1 == functions.len();
            let frame = self.frame((*function, last.then(|| category(moment.state))));
            prefix = Some(self.child(prefix, frame));
        }
        let stack = prefix.unwrap_or(0);
        self.moments.insert(key, stack);
        stack
    }

    fn frame(&mut self, key: FrameKey) -> u32 {
        let table = &mut self.frame_table;
        *self.frame_ids.entry(key).or_insert_with(|| {
            table.push(key);
            table.len() as u32 - 1
        })
    }

    fn child(&mut self, prefix: Option<u32>, frame: u32) -> u32 {
        let table = &mut self.stack_table;
        *self.stack_ids.entry((prefix, frame)).or_insert_with(|| {
            let number = table.len() as u32;
            table.push((frame, prefix.map_or(0, |prefix| number - prefix)));
            number
        })
    }

    /// All tables, as the format has them.
    pub fn tables(self) -> Value {
        let first = self.strings.len() as u32;
        let names = self.frames.names;
        let functions = names.len();
        let strings: Vec<&str> = self
            .strings
            .iter()
            .copied()
            .chain(names.iter().map(String::as_str))
            .collect();
        let all = |value: Value, length: usize| vec![value; length];
        let frames = self.frame_table.len();
        let (none, null) = (json!(-1), Value::Null);
        json!({
            "stackTable": {
                "frame": self.stack_table.iter().map(|(frame, _)| frame).collect::<Vec<_>>(),
                "prefixOffset": self.stack_table.iter().map(|(_, offset)| offset).collect::<Vec<_>>(),
                "length": self.stack_table.len(),
            },
            "frameTable": {
                "address": all(none.clone(), frames),
                "lib": all(none.clone(), frames),
                "inlineDepth": all(json!(0), frames),
                "category": self.frame_table.iter().map(|(_, c)| c.map(|c| c.0)).collect::<Vec<_>>(),
                "subcategory": self.frame_table.iter().map(|(_, c)| c.map(|c| c.1)).collect::<Vec<_>>(),
                "func": self.frame_table.iter().map(|(f, _)| f).collect::<Vec<_>>(),
                "nativeSymbol": all(null.clone(), frames),
                "innerWindowID": all(null.clone(), frames),
                "line": all(null.clone(), frames),
                "column": all(null.clone(), frames),
                "originalLocation": all(null.clone(), frames),
                "length": frames,
            },
            "funcTable": {
                "name": (first..first + functions as u32).collect::<Vec<_>>(),
                "isJS": all(json!(false), functions),
                "relevantForJS": all(json!(false), functions),
                "resource": all(none, functions),
                "source": all(null.clone(), functions),
                "lineNumber": all(null.clone(), functions),
                "columnNumber": all(null.clone(), functions),
                "originalLocation": all(null, functions),
                "length": functions,
            },
            "resourceTable": {"name": [], "host": [], "type": [], "length": 0},
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "stringArray": strings,
            "sources": {
                "id": [], "filename": [], "startLine": [], "startColumn": [], "sourceMapURL": [], "content": [],
                "length": 0,
            },
            "sourceLocationTable": {"source": [], "line": [], "column": [], "length": 0},
        })
    }
}

//! The tables that profiles refer to; each row once.
use super::proto::*;
use dwell_analysis::Analysis;
use dwell_analysis::names::{FunctionId, StackRef, cut_short};
use dwell_recording::rows::FrameRow;
use rustc_hash::FxHashMap;

pub(super) struct Dictionary<'a, 't> {
    analysis: &'a Analysis<'t>,
    tables: ProfilesDictionary,
    strings: FxHashMap<String, i32>,
    attributes: FxHashMap<(i32, AnyValue), i32>,
    /// By function and source file.
    functions: FxHashMap<(i32, i32), i32>,
    /// By module and build id.
    mappings: FxHashMap<(&'a str, &'a str), i32>,
    /// By frame position.
    frames: FxHashMap<usize, i32>,
    /// Locations of names in brackets.
    pseudo: FxHashMap<String, i32>,
    stacks: FxHashMap<StackRef, i32>,
}

impl<'a, 't> Dictionary<'a, 't> {
    pub fn of(analysis: &'a Analysis<'t>) -> Dictionary<'a, 't> {
        let tables = ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: vec![String::new()],
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![Stack::default()],
        };
        Dictionary {
            analysis,
            tables,
            strings: [(String::new(), 0)].into_iter().collect(),
            attributes: FxHashMap::default(),
            functions: FxHashMap::default(),
            mappings: FxHashMap::default(),
            frames: FxHashMap::default(),
            pseudo: FxHashMap::default(),
            stacks: FxHashMap::default(),
        }
    }

    pub fn finish(self) -> ProfilesDictionary {
        self.tables
    }

    pub fn string(&mut self, text: &str) -> i32 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = push(&mut self.tables.string_table, text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    pub fn attribute(&mut self, key: &str, value: impl Into<AnyValue>) -> i32 {
        let key_strindex = self.string(key);
        let value = value.into();
        let table = &mut self.tables.attribute_table;
        let row = |value: &AnyValue| KeyValueAndUnit {
            key_strindex,
            value: Some(value.clone()),
        };
        *self
            .attributes
            .entry((key_strindex, value))
            .or_insert_with_key(|(_, value)| push(table, row(value)))
    }

    pub fn stack(&mut self, stack: StackRef) -> i32 {
        if let Some(number) = self.stacks.get(&stack) {
            return *number;
        }
        let location_indices = match stack {
            StackRef::Taken(position) => self.locations(position as usize),
            StackRef::Missing(missing) => vec![self.pseudo(missing.frame())],
        };
        let number = push(&mut self.tables.stack_table, Stack { location_indices });
        self.stacks.insert(stack, number);
        number
    }

    /// Innermost first.
    fn locations(&mut self, position: usize) -> Vec<i32> {
        let analysis = self.analysis;
        let row = &analysis.tables.stacks[position];
        let mut locations = Vec::with_capacity(row.frames.len() + 1);
        for id in row.frames.iter().rev() {
            locations.push(match analysis.index.frame(*id) {
                Some(frame) => self.frame(frame),
                None => self.pseudo("[frame lost]"),
            });
        }
        if let Some(why) = cut_short(&row.end) {
            locations.push(self.pseudo(&format!("[cut short: {why}]")));
        }
        if locations.is_empty() {
            locations.push(self.pseudo("[no frames]"));
        }
        locations
    }

    fn frame(&mut self, position: usize) -> i32 {
        if let Some(location) = self.frames.get(&position) {
            return *location;
        }
        let analysis = self.analysis;
        let row = &analysis.tables.frames[position];
        let kind = match row.kind.as_str() {
            "kernel" => "kernel",
            _ => "native",
        };
        // Innermost first, and the names run the other way.
        let functions: Vec<_> = analysis.names.frame(position).rev().collect();
        let location = Location {
            mapping_index: self.mapping(row),
            address: row.address,
            lines: functions
                .into_iter()
                .map(|(f, s)| self.line(f, s))
                .collect(),
            attribute_indices: vec![self.attribute("profile.frame.type", kind)],
        };
        let number = push(&mut self.tables.location_table, location);
        self.frames.insert(position, number);
        number
    }

    fn line(&mut self, function: FunctionId, symbol: Option<u32>) -> Line {
        let analysis = self.analysis;
        let symbol = symbol.map(|position| &analysis.tables.symbols[position as usize]);
        let file = symbol.and_then(|s| s.file.as_deref()).unwrap_or_default();
        let name = &analysis.names.function(function).name;
        Line {
            function_index: self.function(name, file),
            line: i64::from(symbol.and_then(|s| s.line).unwrap_or(0)),
        }
    }

    fn function(&mut self, name: &str, file: &str) -> i32 {
        let (name_strindex, filename_strindex) = (self.string(name), self.string(file));
        let table = &mut self.tables.function_table;
        let row = Function {
            name_strindex,
            filename_strindex,
        };
        *self
            .functions
            .entry((name_strindex, filename_strindex))
            .or_insert_with(|| push(table, row))
    }

    /// The location of a name in brackets.
    fn pseudo(&mut self, name: &str) -> i32 {
        if let Some(location) = self.pseudo.get(name) {
            return *location;
        }
        let function_index = self.function(name, "");
        let location = Location {
            lines: vec![Line {
                function_index,
                line: 0,
            }],
            ..Location::default()
        };
        let number = push(&mut self.tables.location_table, location);
        self.pseudo.insert(name.to_owned(), number);
        number
    }

    /// The file of a frame. Its range grows with the addresses seen in it.
    fn mapping(&mut self, frame: &'a FrameRow) -> i32 {
        const PAGE: u64 = 4096;
        let key = (frame.module.as_str(), frame.build_id.as_str());
        let number = match self.mappings.get(&key) {
            Some(number) => *number,
            None => {
                let mut mapping = Mapping {
                    filename_strindex: self.string(&frame.module),
                    ..Mapping::default()
                };
                if !frame.build_id.is_empty() {
                    let id =
                        self.attribute("process.executable.build_id.gnu", frame.build_id.as_str());
                    mapping.attribute_indices.push(id);
                }
                let number = push(&mut self.tables.mapping_table, mapping);
                self.mappings.insert(key, number);
                number
            }
        };
        let mapping = &mut self.tables.mapping_table[number as usize];
        let page_end = (frame.address / PAGE)
            .saturating_add(1)
            .saturating_mul(PAGE);
        mapping.memory_limit = mapping.memory_limit.max(page_end);
        number
    }
}

/// Adds a row; returns its number.
fn push<T>(table: &mut Vec<T>, row: T) -> i32 {
    table.push(row);
    i32::try_from(table.len() - 1).unwrap_or(i32::MAX)
}

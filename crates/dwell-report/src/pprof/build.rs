//! From weighted stacks to pprof's tables.
use super::Labels;
use super::proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use dwell_analysis::names::{FunctionId, Missing, StackRef, cut_short};
use dwell_analysis::{Analysis, Entry, State};
use dwell_recording::rows::FrameRow;
use rustc_hash::FxHashMap;

pub(super) fn profile(analysis: &Analysis<'_>, labels: Labels) -> Profile {
    let mut build = Build {
        analysis,
        labels,
        profile: Profile::default(),
        strings: FxHashMap::default(),
        functions: FxHashMap::default(),
        mappings: FxHashMap::default(),
        frames: FxHashMap::default(),
        pseudo: FxHashMap::default(),
        stacks: FxHashMap::default(),
    };
    build.string("");
    build.header();
    for entry in &analysis.profile.entries {
        build.sample(entry);
    }
    build.profile
}

struct Build<'a, 't> {
    analysis: &'a Analysis<'t>,
    labels: Labels,
    profile: Profile,
    strings: FxHashMap<String, i64>,
    functions: FxHashMap<(FunctionId, i64), u64>,
    /// By module and build id.
    mappings: FxHashMap<(&'a str, &'a str), usize>,
    /// By frame position.
    frames: FxHashMap<usize, u64>,
    /// Locations of names in brackets.
    pseudo: FxHashMap<String, u64>,
    stacks: FxHashMap<StackRef, Vec<u64>>,
}

/// pprof's numbers are signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl<'a> Build<'a, '_> {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn header(&mut self) {
        let meta = &self.analysis.tables.meta;
        let unit = self.string("nanoseconds");
        for name in ["wall", "cpu", "off_cpu"] {
            let r#type = self.string(name);
            self.profile.sample_type.push(ValueType { r#type, unit });
        }
        let wall = self.profile.sample_type[0];
        self.profile.default_sample_type = wall.r#type;
        self.profile.period_type = Some(wall);
        self.profile.period = signed(meta.period_ns);
        self.profile.duration_nanos = signed(self.analysis.summary.window_ns);
        self.profile.time_nanos = signed(meta.clock.unix_ns(meta.start_ns));
        let target = self.string(&meta.target);
        self.profile.comment.push(target);
    }

    fn sample(&mut self, entry: &Entry) {
        let ns = signed(entry.weight_ns);
        let value = match entry.state {
            State::Running | State::Spinning => vec![ns, ns, 0],
            State::Runnable | State::Stolen | State::Blocked(_) => vec![ns, 0, ns],
            State::Lost => vec![ns, 0, 0],
        };
        let label = self.labels(entry);
        let location_id = self.stack(entry.stack);
        self.profile.sample.push(Sample {
            location_id,
            value,
            label,
        });
    }

    fn labels(&mut self, entry: &Entry) -> Vec<Label> {
        let analysis = self.analysis;
        let thread = &analysis.tables.threads[entry.thread as usize];
        let process = analysis.index.process(thread.process);
        let name = dwell_analysis::groups::process_name(analysis.tables, process);
        let mut labels = vec![
            self.text("process", name),
            self.text("state", entry.state.name()),
        ];
        if let Some(reason) = entry.state.reason() {
            labels.push(self.text("reason", reason.name()));
        }
        if self.labels == Labels::OfFewValues {
            return labels;
        }
        labels.push(self.text("thread", &thread.name));
        labels.push(self.number("tid", thread.tid));
        if let Some(process) = process {
            labels.push(self.number("pid", analysis.tables.processes[process].pid));
        }
        let syscall = analysis.profile.syscall(entry);
        if !syscall.is_empty() {
            labels.push(self.text("syscall", syscall));
        }
        labels
    }

    fn text(&mut self, key: &str, value: &str) -> Label {
        Label {
            key: self.string(key),
            str: self.string(value),
            num: 0,
        }
    }

    fn number(&mut self, key: &str, value: u32) -> Label {
        Label {
            key: self.string(key),
            str: 0,
            num: i64::from(value),
        }
    }

    /// Locations of a stack, innermost first.
    fn stack(&mut self, stack: StackRef) -> Vec<u64> {
        if let Some(locations) = self.stacks.get(&stack) {
            return locations.clone();
        }
        let locations = match stack {
            StackRef::Taken(position) => self.taken(position as usize),
            StackRef::Missing(missing) => vec![self.pseudo(missing.frame())],
        };
        self.stacks.insert(stack, locations.clone());
        locations
    }

    fn taken(&mut self, position: usize) -> Vec<u64> {
        let analysis = self.analysis;
        let row = &analysis.tables.stacks[position];
        let mut locations: Vec<u64> = Vec::with_capacity(row.frames.len() + 1);
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
            locations.push(self.pseudo(Missing::StackLost.frame()));
        }
        locations
    }

    fn frame(&mut self, position: usize) -> u64 {
        if let Some(location) = self.frames.get(&position) {
            return *location;
        }
        let analysis = self.analysis;
        let row = &analysis.tables.frames[position];
        let mapping = self.mapping(row);
        let functions: Vec<_> = analysis.names.frame(position).collect();
        // Innermost first, and the names run the other way.
        let line = functions
            .into_iter()
            .rev()
            .map(|(f, symbol)| self.line(f, symbol, mapping))
            .collect();
        let mapping_id = self.profile.mapping[mapping].id;
        let location = self.location(mapping_id, row.address, line);
        self.frames.insert(position, location);
        location
    }

    fn location(&mut self, mapping_id: u64, address: u64, line: Vec<Line>) -> u64 {
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location {
            id,
            mapping_id,
            address,
            line,
        });
        id
    }

    fn line(&mut self, function: FunctionId, symbol: Option<u32>, mapping: usize) -> Line {
        let symbol = symbol.map(|position| &self.analysis.tables.symbols[position as usize]);
        let file = symbol.and_then(|s| s.file.as_deref()).unwrap_or_default();
        let line = symbol.and_then(|s| s.line).unwrap_or(0);
        let into = &mut self.profile.mapping[mapping];
        into.has_functions = true;
        into.has_filenames |= !file.is_empty();
        into.has_line_numbers |= line > 0;
        into.has_inline_frames |= symbol.is_some_and(|s| s.inlined);
        let file = self.string(file);
        Line {
            function_id: self.function(function, file),
            line: i64::from(line),
        }
    }

    fn function(&mut self, function: FunctionId, filename: i64) -> u64 {
        if let Some(id) = self.functions.get(&(function, filename)) {
            return *id;
        }
        let known = self.analysis.names.function(function);
        let id = self.new_function(&known.name, filename);
        self.functions.insert((function, filename), id);
        id
    }

    fn new_function(&mut self, name: &str, filename: i64) -> u64 {
        let name = self.string(name);
        let id = self.profile.function.len() as u64 + 1;
        self.profile.function.push(Function {
            id,
            name,
            system_name: name,
            filename,
        });
        id
    }

    /// The location of a name in brackets.
    fn pseudo(&mut self, name: &str) -> u64 {
        if let Some(location) = self.pseudo.get(name) {
            return *location;
        }
        let function_id = self.new_function(name, 0);
        let location = self.location(
            0,
            0,
            vec![Line {
                function_id,
                line: 0,
            }],
        );
        self.pseudo.insert(name.to_owned(), location);
        location
    }

    /// Place of the file in the mappings. Its range grows with the addresses seen in it.
    fn mapping(&mut self, frame: &'a FrameRow) -> usize {
        const PAGE: u64 = 4096;
        let key = (frame.module.as_str(), frame.build_id.as_str());
        let place = match self.mappings.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.profile.mapping.len();
                let filename = self.string(&frame.module);
                let build_id = self.string(&frame.build_id);
                let id = place as u64 + 1;
                self.profile.mapping.push(Mapping {
                    id,
                    filename,
                    build_id,
                    ..Mapping::default()
                });
                self.mappings.insert(key, place);
                place
            }
        };
        let mapping = &mut self.profile.mapping[place];
        let page_end = (frame.address / PAGE)
            .saturating_add(1)
            .saturating_mul(PAGE);
        mapping.memory_limit = mapping.memory_limit.max(page_end);
        place
    }
}

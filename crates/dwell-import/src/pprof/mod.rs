//! pprof: `profile.proto`, gzipped or not.
//!
//! Values in units of time are time; a `cpu` and a `wall` together tell what was spent waiting; values that
//! count samples are so many periods, where the file says how long that is. dwell's own files, whose labels
//! tell the state, become what they were.
mod columns;
mod wire;

use crate::builder::{Builder, COMPLETE, Place};
use crate::flat::{Doing, Flat, Who};
use crate::folded::tool;
use crate::source::read_all;
use crate::{Format, ImportError, Imported, Options, Source};
use columns::{Column, Columns};
use dwell_pprof as proto;
use dwell_recording::Overwrite;
use dwell_recording::meta::{ClockAnchor, Meta};
use dwell_recording::rows::SymbolRow;
use flate2::read::MultiGzDecoder;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::Read;
use std::path::Path;
use wire::Tables;

/// Largest profile, unpacked, bytes: a hundred times a large one's.
const MAX_BYTES: u64 = 256 << 20;

/// Writes the profile as a recording.
pub fn import(
    source: &dyn Source,
    options: &Options,
    to: &Path,
    overwrite: Overwrite,
) -> Result<Imported, ImportError> {
    let bytes = unpacked(source)?;
    let tables = wire::tables(&bytes)?;
    let columns = Columns::of(&tables)?;
    let mut samples = tables.samples(&bytes).peekable();
    if samples.peek().is_none() {
        return Err(ImportError::NoSamples);
    }
    let builder = Builder::create(to, meta(&tables, options), overwrite)?;
    let mut profile = Profile {
        flat: Flat::new(builder),
        tables: &tables,
        columns: &columns,
        name: options.name.rsplit('/').next().unwrap_or_default(),
        frames: FxHashMap::default(),
        addresses: FxHashSet::default(),
    };
    for sample in samples {
        profile.add(&sample?)?;
    }
    let (samples, threads) = profile.flat.finish()?;
    Ok(Imported {
        format: Format::Pprof,
        samples,
        threads,
        notes: columns.notes.clone(),
    })
}

fn unpacked(source: &dyn Source) -> Result<Vec<u8>, ImportError> {
    let too_large = || {
        ImportError::Pprof(
            "larger than 256 MiB; reduce it with `go tool pprof -proto -focus=…`".into(),
        )
    };
    let packed = read_all(source, MAX_BYTES)?.ok_or_else(too_large)?;
    if !packed.starts_with(&[0x1f, 0x8b]) {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    MultiGzDecoder::new(packed.as_slice())
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| ImportError::Pprof(format!("the gzip data is damaged or cut short: {e}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large());
    }
    Ok(bytes)
}

fn meta(tables: &Tables<'_>, options: &Options) -> Meta {
    let time_ns = u64::try_from(tables.time_nanos).unwrap_or(0);
    Meta {
        tool: tool(),
        target: options.name.clone(),
        command_line: options.command_line.clone(),
        period_ns: columns::period_ns(tables).unwrap_or(1_000_000),
        end_ns: u64::try_from(tables.duration_nanos).unwrap_or(0),
        clock: ClockAnchor {
            boottime_ns: 0,
            realtime_ns: if time_ns > 0 {
                time_ns
            } else {
                options.modified_ns
            },
        },
        ..Meta::default()
    }
}

struct Profile<'p> {
    flat: Flat,
    tables: &'p Tables<'p>,
    columns: &'p Columns,
    /// Of the file, where nothing names the process.
    name: &'p str,
    /// By location.
    frames: FxHashMap<u64, u32>,
    /// Places and addresses that have a frame.
    addresses: FxHashSet<(u32, u64)>,
}

/// What the labels of a sample tell.
#[derive(Default)]
struct Labels<'p> {
    who: Who,
    state: &'p str,
    reason: &'p str,
    syscall: &'p str,
}

impl<'p> Profile<'p> {
    fn add(&mut self, sample: &proto::Sample) -> Result<(), ImportError> {
        let labels = self.labels(sample);
        let mut frames = Vec::with_capacity(sample.location_id.len());
        for location in sample.location_id.iter().rev() {
            frames.push(self.frame(*location)?);
        }
        let stack = self.flat.builder().stack(frames, COMPLETE)?;
        let thread = self.flat.thread(&labels.who);
        for (column, ns) in self.columns.times(&sample.value) {
            if ns > 0 {
                self.flat.add(thread, &doing(column, &labels), stack, ns)?;
            }
        }
        Ok(())
    }

    fn labels(&self, sample: &proto::Sample) -> Labels<'p> {
        let mut labels = Labels::default();
        for label in &sample.label {
            let text = self.tables.text(label.str);
            let number = || match u32::try_from(label.num) {
                Ok(number) if number > 0 => number,
                _ => text.parse().unwrap_or(0),
            };
            match self.tables.text(label.key) {
                "process" | "process_name" | "process name" | "comm" => {
                    labels.who.process = text.into();
                }
                "pid" | "process_id" | "process id" => labels.who.pid = number(),
                "thread" | "thread_name" | "thread name" => labels.who.thread = text.into(),
                "tid" | "thread_id" | "thread id" => labels.who.tid = number(),
                "state" => labels.state = text,
                "reason" => labels.reason = text,
                "syscall" => labels.syscall = text,
                _ => {}
            }
        }
        if labels.who.process.is_empty() {
            labels.who.process = self.name.into();
        }
        if labels.who.thread.is_empty() {
            labels.who.thread.clone_from(&labels.who.process);
        }
        labels
    }

    /// The frame of a location, with its names.
    fn frame(&mut self, location: u64) -> Result<u32, ImportError> {
        if let Some(frame) = self.frames.get(&location) {
            return Ok(*frame);
        }
        let known = self.tables.location(location);
        let place = self.place(known.map_or(0, |l| l.mapping_id));
        let place_id = self.flat.builder().place(place.clone());
        let mut address = known.map_or(0, |l| l.address);
        // Files without addresses have many locations at 0: each is a frame all the same.
        while !self.addresses.insert((place_id, address)) {
            address = u64::MAX - self.addresses.len() as u64;
        }
        let (frame, _) = self.flat.builder().frame(place_id, &place, address)?;
        let lines = known.map_or(&[][..], |l| &l.line);
        let rows = lines.iter().zip(0..).map(|(line, depth)| {
            let function = self.tables.function(line.function_id);
            let file = function.map_or("", |f| self.tables.text(f.filename));
            SymbolRow {
                frame,
                depth,
                function: function.map_or("", |f| self.tables.text(f.name)).into(),
                file: (!file.is_empty()).then(|| file.into()),
                line: u32::try_from(line.line).ok().filter(|l| *l > 0),
                inlined: (depth as usize) + 1 < lines.len(),
            }
        });
        let rows: Vec<SymbolRow> = rows.filter(|row| !row.function.is_empty()).collect();
        self.flat.builder().symbols(rows)?;
        self.frames.insert(location, frame);
        Ok(frame)
    }

    fn place(&self, mapping: u64) -> Place {
        let mapping = self.tables.mapping(mapping);
        let module = mapping.map_or("", |m| self.tables.text(m.filename));
        let kernel = module.starts_with("[kernel");
        Place {
            kind: if kernel { "kernel" } else { "user" },
            module: if kernel { "[kernel]" } else { module }.into(),
            build_id: mapping
                .map_or("", |m| self.tables.text(m.build_id))
                .to_owned(),
            process: None,
        }
    }
}

/// What a thread did meanwhile: labels of dwell's own files tell, else the column.
fn doing(column: &Column, labels: &Labels<'_>) -> Doing {
    let blocked = |reason: &str| Doing::Blocked {
        reason: reason.into(),
        syscall: labels.syscall.into(),
    };
    match (column.by_state, labels.state) {
        (true, "runnable") => Doing::Runnable,
        (true, "stolen") => Doing::Stolen,
        (true, "lost") => Doing::Lost,
        (true, "blocked") => blocked(labels.reason),
        (true, _) => Doing::Running,
        (false, _) => match column.reason {
            Some(reason) => blocked(reason),
            None => Doing::Running,
        },
    }
}

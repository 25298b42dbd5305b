//! Folded stacks: lines `a;b;c N`, outermost frame first.
//!
//! `_[k]` behind a name says that it is the kernel's, as stackcollapse-perf.pl and dwell write it; a frame `-`
//! parts the user's frames from the kernel's, as offcputime writes it. Of dwell's own files the last frame
//! tells the state: `[blocked: lock futex]`, `[runnable]`, `[lost]`, `[stolen]`.
use crate::builder::{Builder, COMPLETE};
use crate::flat::{Doing, Flat, Who};
use crate::{Format, ImportError, Imported, Options, Source, Unit};
use dwell_recording::Overwrite;
use dwell_recording::meta::{ClockAnchor, Meta};
use dwell_recording::rows::reason;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A line longer than this is no stack.
const MAX_LINE: u64 = 4 << 20;

/// Whether the first lines of a file are folded stacks.
pub fn looks_like(start: &[u8]) -> bool {
    let lines = start.split(|b| *b == b'\n');
    let first = lines
        .map(<[u8]>::trim_ascii)
        .find(|l| !l.is_empty() && !l.starts_with(b"#"));
    first.is_some_and(|line| {
        let text = std::str::from_utf8(line);
        // The line may be longer than what was read.
        text.is_ok_and(|t| split(t).is_ok() || (start.len() >= 4096 && t.contains(';')))
            && !line.contains(&0)
    })
}

/// The frames and the number of a line.
fn split(line: &str) -> Result<(&str, f64), &'static str> {
    let (stack, number) = line
        .rsplit_once([' ', '\t'])
        .ok_or("no number at its end")?;
    let number: f64 = number
        .parse()
        .map_err(|_| "what follows the last blank is no number")?;
    if !(number.is_finite() && number >= 0.0) {
        return Err("the number is negative or no number");
    }
    let stack = stack.trim_end();
    if stack.is_empty() {
        return Err("no frame in front of the number");
    }
    Ok((stack, number))
}

/// Reads the source from its start.
struct Reader<'s> {
    source: &'s dyn Source,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len().saturating_sub(self.at);
        let n = left.min(buffer.len() as u64) as usize;
        self.source.read_at(self.at, &mut buffer[..n])?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Writes the stacks as a recording of one thread.
pub fn import(
    source: &dyn Source,
    options: &Options,
    to: &Path,
    overwrite: Overwrite,
) -> Result<Imported, ImportError> {
    let mut reader = BufReader::with_capacity(1 << 16, Reader { source, at: 0 });
    let mut line = Vec::new();
    let mut fold: Option<Fold> = None;
    for number in 1.. {
        line.clear();
        let read = reader
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        let wrong = |what| ImportError::FoldedLine { line: number, what };
        if line.len() as u64 == MAX_LINE {
            return Err(wrong("longer than 4 MiB"));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (stack, value) = split(text).map_err(wrong)?;
        let fold = match &mut fold {
            Some(fold) => fold,
            // Nothing is written before the first line has shown what the file is.
            none => none.insert(Fold::new(options, to, overwrite)?),
        };
        fold.add(stack, value)?;
    }
    fold.ok_or(ImportError::NoSamples)?.finish(options)
}

struct Fold {
    flat: Flat,
    thread: usize,
    unit_ns: f64,
    off_cpu: bool,
}

impl Fold {
    fn new(options: &Options, to: &Path, overwrite: Overwrite) -> Result<Fold, ImportError> {
        let meta = Meta {
            tool: tool(),
            target: options.name.clone(),
            command_line: options.command_line.clone(),
            period_ns: options.unit.ns(),
            clock: ClockAnchor {
                boottime_ns: 0,
                realtime_ns: options.modified_ns,
            },
            ..Meta::default()
        };
        let mut flat = Flat::new(Builder::create(to, meta, overwrite)?);
        let name = options.name.rsplit('/').next().unwrap_or_default();
        let thread = flat.thread(&Who {
            process: name.into(),
            thread: name.into(),
            ..Who::default()
        });
        Ok(Fold {
            flat,
            thread,
            unit_ns: options.unit.ns() as f64,
            off_cpu: options.off_cpu,
        })
    }

    fn add(&mut self, stack: &str, value: f64) -> Result<(), ImportError> {
        let mut names: Vec<&str> = stack.split(';').collect();
        let doing = match names.last().and_then(|last| state(last)) {
            Some(doing) => {
                names.pop();
                doing
            }
            None if self.off_cpu => Doing::Blocked {
                reason: reason::OTHER.into(),
                syscall: String::new(),
            },
            None => Doing::Running,
        };
        let mut frames = Vec::with_capacity(names.len());
        let mut in_kernel = false;
        for name in names {
            if name == "-" {
                in_kernel = true;
                continue;
            }
            let (name, kind) = match name.strip_suffix("_[k]") {
                Some(name) => (name, "kernel"),
                None if in_kernel => (name, "kernel"),
                None => (name, "user"),
            };
            frames.push(self.flat.named(kind, name)?);
        }
        let stack = self.flat.builder().stack(frames, COMPLETE)?;
        // Casts of floats saturate.
        let ns = (value * self.unit_ns).round() as u64;
        self.flat.add(self.thread, &doing, stack, ns)
    }

    fn finish(self, options: &Options) -> Result<Imported, ImportError> {
        let (samples, threads) = self.flat.finish()?;
        let mut notes = Vec::new();
        if options.unit == Unit::Samples {
            notes.push(
                "the numbers count as samples: one is shown as 1 ms; if they are times, say --unit ns, us or ms"
                    .into(),
            );
        }
        Ok(Imported {
            format: Format::Folded,
            samples,
            threads,
            notes,
        })
    }
}

/// Who wrote the recording.
pub fn tool() -> String {
    concat!("dwell ", env!("CARGO_PKG_VERSION"), " import").into()
}

/// The state that a frame of dwell's own files tells.
fn state(frame: &str) -> Option<Doing> {
    let inner = frame.strip_prefix('[')?.strip_suffix(']')?;
    match inner {
        "runnable" => Some(Doing::Runnable),
        "stolen" => Some(Doing::Stolen),
        "lost" => Some(Doing::Lost),
        _ => {
            let why = inner.strip_prefix("blocked: ")?;
            let (reason, syscall) = why.split_once(' ').unwrap_or((why, ""));
            Some(Doing::Blocked {
                reason: reason.into(),
                syscall: syscall.into(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_frames_and_a_number() {
        assert_eq!(split("a;b 12"), Ok(("a;b", 12.0)));
        assert_eq!(split("a b;c d 1.5"), Ok(("a b;c d", 1.5)));
        assert!(split("a;b").is_err());
        assert!(split("a;b NaN").is_err());
        assert!(split("a;b -1").is_err());
        assert!(split(" 5").is_err());
    }

    #[test]
    fn what_folded_stacks_look_like() {
        assert!(looks_like(b"# comment\n\nmain;f 3\nmain 1\n"));
        assert!(!looks_like(b"hello world\n"));
        assert!(!looks_like(b"\x0a\x04\x08\x01\x10\x02"));
        assert!(!looks_like(b""));
    }

    #[test]
    fn states_of_our_own_files() {
        assert_eq!(state("[runnable]"), Some(Doing::Runnable));
        let blocked = |reason: &str, syscall: &str| {
            Some(Doing::Blocked {
                reason: reason.into(),
                syscall: syscall.into(),
            })
        };
        assert_eq!(state("[blocked: lock futex]"), blocked("lock", "futex"));
        assert_eq!(state("[blocked: fault]"), blocked("fault", ""));
        assert_eq!(state("[unknown]"), None);
        assert_eq!(state("main"), None);
    }
}

//! jitdump files (`jit-PID.dump`), as the kernel's `perf` defines them: binary records of the
//! code a JIT compiler made, its moves and its source lines.
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use crate::queries::Queries;

/// `JiTD`, in the byte order of the machine that wrote it.
const MAGIC: u32 = 0x4A69_5444;
/// The one version there is.
const VERSION: u32 = 1;
/// Bytes of the fixed file header and of the header of each record.
const FILE_HEADER: u64 = 40;
const RECORD_HEADER: u64 = 16;

const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;

/// Bytes of a load record between its header and the name, and of a whole move record's body.
const LOAD_FIXED: u64 = 40;
const MOVE_FIXED: u64 = 48;
/// Bytes of a line entry before the name of its file.
const LINE_FIXED: usize = 16;

/// Longest function name, bytes.
const MAX_NAME: u64 = 64 << 10;
/// Largest line table of one function that is kept, bytes.
const MAX_LINES: u64 = 4 << 20;
/// Most records read of one file.
const MAX_RECORDS: usize = 16 << 20;
/// Some writers count line addresses from the start of the ELF file that perf wraps the code in,
/// which puts its header before the code.
const ELF_HEADER: u64 = 0x40;

/// Why a file is no usable jitdump.
#[derive(Debug, thiserror::Error)]
pub enum JitDumpError {
    /// The file cannot be read, or ends within its header.
    #[error("cannot read the jitdump file: {0}")]
    Io(#[from] io::Error),
    /// It is something else, or was written on a machine of the other byte order.
    #[error("not a jitdump file of this machine (it starts with {0:#010x}); record again here")]
    Magic(u32),
    /// A version nobody has defined yet.
    #[error("jitdump version {0} is unknown (this reads version 1)")]
    Version(u32),
}

/// A function and, where the compiler told it, its source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JitName {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

/// What is known about an address while the file is read.
#[derive(Clone)]
enum Answer {
    Named(JitName),
    /// Moved here: the name is that of the load with this index.
    Moved(u64),
}

/// For each of the sorted addresses the code that was last there.
///
/// The file is streamed past the addresses; only names of hits are kept.
pub(crate) fn names(
    file: impl Read + Seek,
    queries: &mut Queries,
) -> Result<Vec<Option<JitName>>, JitDumpError> {
    let mut dump = Dump::open(file)?;
    let mut answers = vec![None; queries.len()];
    let mut lines = None;
    for _ in 0..MAX_RECORDS {
        let Some(record) = dump.next_record() else {
            break;
        };
        // A record that is damaged, or the half-written last one, ends nothing but itself.
        let _ = dump.apply(&record, queries, &mut answers, &mut lines);
    }
    resolve_moves(&mut dump, answers)
}

/// The name that the jitdump `contents` gives to `address`, the last record winning. For one
/// address; fuzzing and tools use it.
pub fn name_from_jitdump(contents: &[u8], address: u64) -> Result<Option<String>, JitDumpError> {
    let names = names(io::Cursor::new(contents), &mut Queries::new(&[address]))?;
    Ok(names.into_iter().flatten().next().map(|n| n.function))
}

/// Replaces moves by the names of the loads they refer to, by reading the file once more.
fn resolve_moves<F: Read + Seek>(
    dump: &mut Dump<F>,
    answers: Vec<Option<Answer>>,
) -> Result<Vec<Option<JitName>>, JitDumpError> {
    let moved = |a: &Option<Answer>| match a {
        Some(Answer::Moved(index)) => Some((*index, String::new())),
        _ => None,
    };
    let mut wanted: HashMap<u64, String> = answers.iter().filter_map(moved).collect();
    if !wanted.is_empty() {
        dump.next = dump.first_record;
        for _ in 0..MAX_RECORDS {
            let Some(record) = dump.next_record() else {
                break;
            };
            if record.kind == CODE_LOAD
                && let Ok(load) = dump.load(&record)
                && let Some(name) = wanted.get_mut(&load.index)
                && let Ok(new) = dump.name(&record)
            {
                *name = new;
            }
        }
    }
    let named = |answer: Answer| match answer {
        Answer::Named(name) => Some(name),
        Answer::Moved(index) => {
            let function = wanted.get(&index).filter(|n| !n.is_empty())?.clone();
            Some(JitName {
                function,
                ..JitName::default()
            })
        }
    };
    Ok(answers.into_iter().map(|a| a.and_then(named)).collect())
}

/// The line table that precedes the load of its function.
struct Lines {
    code: u64,
    bytes: Vec<u8>,
}

/// A record's header.
struct Record {
    kind: u32,
    /// Where its body starts in the file, and how long that is.
    body: u64,
    length: u64,
}

/// The fixed part of a load.
struct Load {
    address: u64,
    size: u64,
    index: u64,
}

/// A file being read, with its position (seeking within the buffer needs it).
struct Dump<F> {
    reader: BufReader<F>,
    position: u64,
    first_record: u64,
    next: u64,
}

impl<F: Read + Seek> Dump<F> {
    fn open(file: F) -> Result<Self, JitDumpError> {
        let mut dump = Self {
            reader: BufReader::with_capacity(1 << 16, file),
            position: 0,
            first_record: 0,
            next: 0,
        };
        let header: [u8; FILE_HEADER as usize] = dump.array()?;
        let magic = u32_at(&header, 0);
        if magic != MAGIC {
            return Err(JitDumpError::Magic(magic));
        }
        let version = u32_at(&header, 4);
        if version != VERSION {
            return Err(JitDumpError::Version(version));
        }
        dump.first_record = u64::from(u32_at(&header, 8)).max(FILE_HEADER);
        dump.next = dump.first_record;
        Ok(dump)
    }

    /// Takes account of one record.
    fn apply(
        &mut self,
        record: &Record,
        queries: &mut Queries,
        answers: &mut [Option<Answer>],
        lines: &mut Option<Lines>,
    ) -> io::Result<()> {
        match record.kind {
            CODE_LOAD => {
                let load = self.load(record)?;
                let lines = lines.take().filter(|l| l.code == load.address);
                let hits = queries.visit(load.address, load.address.saturating_add(load.size));
                if hits.is_empty() {
                    return Ok(());
                }
                let function = self.name(record)?;
                let lines = lines.as_ref().map(Lines::table).unwrap_or_default();
                for i in hits {
                    let (file, line) = locate(&lines, queries.all()[i]);
                    let function = function.clone();
                    answers[i] = Some(Answer::Named(JitName {
                        function,
                        file,
                        line,
                    }));
                }
            }
            CODE_MOVE => {
                let (address, size, index) = self.moved(record)?;
                for i in queries.visit(address, address.saturating_add(size)) {
                    answers[i] = Some(Answer::Moved(index));
                }
            }
            DEBUG_INFO => *lines = self.lines(record)?,
            _ => {}
        }
        Ok(())
    }

    /// The next record's header; None at the end of the file, or where it makes no sense.
    fn next_record(&mut self) -> Option<Record> {
        self.seek_to(self.next).ok()?;
        let header: [u8; RECORD_HEADER as usize] = self.array().ok()?;
        let length = u64::from(u32_at(&header, 4)).checked_sub(RECORD_HEADER)?;
        let body = self.position;
        self.next = body.checked_add(length)?;
        Some(Record {
            kind: u32_at(&header, 0),
            body,
            length,
        })
    }

    fn load(&mut self, record: &Record) -> io::Result<Load> {
        // pid, tid, vma, then what is wanted.
        let fixed: [u8; LOAD_FIXED as usize] = self.body(record)?;
        Ok(Load {
            address: u64_at(&fixed, 16),
            size: u64_at(&fixed, 24),
            index: u64_at(&fixed, 32),
        })
    }

    fn moved(&mut self, record: &Record) -> io::Result<(u64, u64, u64)> {
        // pid, tid, vma, old address, new address, size, index.
        let fixed: [u8; MOVE_FIXED as usize] = self.body(record)?;
        Ok((u64_at(&fixed, 24), u64_at(&fixed, 32), u64_at(&fixed, 40)))
    }

    /// The name of a load, which ends with a zero byte.
    fn name(&mut self, record: &Record) -> io::Result<String> {
        self.seek_to(record.body + LOAD_FIXED)?;
        let most = record.length.saturating_sub(LOAD_FIXED).min(MAX_NAME);
        let mut name = Vec::new();
        let read = self.reader.by_ref().take(most).read_until(0, &mut name)?;
        self.position += read as u64;
        match name.pop() {
            Some(0) if !name.is_empty() => Ok(String::from_utf8_lossy(&name).into_owned()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn lines(&mut self, record: &Record) -> io::Result<Option<Lines>> {
        // Code address and number of entries, then the entries.
        let fixed: [u8; 16] = self.body(record)?;
        let length = record.length - fixed.len() as u64;
        if length > MAX_LINES {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.position += self.reader.by_ref().take(length).read_to_end(&mut bytes)? as u64;
        Ok(Some(Lines {
            code: u64_at(&fixed, 0),
            bytes,
        }))
    }

    /// The first bytes of a record's body, which must be that long.
    fn body<const N: usize>(&mut self, record: &Record) -> io::Result<[u8; N]> {
        if record.length < N as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.seek_to(record.body)?;
        self.array()
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.position += N as u64;
        Ok(bytes)
    }

    /// Moves on or back; short moves stay within the buffer.
    fn seek_to(&mut self, position: u64) -> io::Result<()> {
        if position != self.position {
            match i64::try_from(i128::from(position) - i128::from(self.position)) {
                Ok(step) => self.reader.seek_relative(step)?,
                Err(_) => drop(self.reader.seek(SeekFrom::Start(position))?),
            }
            self.position = position;
        }
        Ok(())
    }
}

/// One row of a line table: it holds from its address up to that of the next row.
struct LineRow<'a> {
    address: u64,
    line: i32,
    file: &'a [u8],
}

/// File and line of `address` in a sorted table.
fn locate(table: &[LineRow<'_>], address: u64) -> (Option<String>, Option<u32>) {
    let after = table.partition_point(|row| row.address <= address);
    let Some(row) = table[..after].last() else {
        return (None, None);
    };
    let file = (!row.file.is_empty()).then(|| String::from_utf8_lossy(row.file).into_owned());
    (file, u32::try_from(row.line).ok().filter(|&l| l > 0))
}

impl Lines {
    /// The rows, sorted.
    fn table(&self) -> Vec<LineRow<'_>> {
        let mut last_file = &[][..];
        let mut rows = Vec::new();
        for (address, line, file) in self.entries() {
            // 0xff stands for "the same file as before".
            if file != b"\xff" {
                last_file = file;
            }
            rows.push(LineRow {
                address,
                line,
                file: last_file,
            });
        }
        rows.sort_by_key(|row| row.address);
        if rows
            .first()
            .is_some_and(|r| r.address >= self.code.saturating_add(ELF_HEADER))
        {
            rows.iter_mut().for_each(|row| row.address -= ELF_HEADER);
        }
        rows
    }

    /// Address, line and file of each whole entry.
    fn entries(&self) -> impl Iterator<Item = (u64, i32, &[u8])> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (fixed, tail) = rest.split_at_checked(LINE_FIXED)?;
            let end = tail.iter().position(|&b| b == 0)?;
            rest = &tail[end + 1..];
            Some((u64_at(fixed, 0), u32_at(fixed, 8) as i32, &tail[..end]))
        })
    }
}

/// The number at `at`, which the caller knows to be inside.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| u32::from_ne_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| u64::from_ne_bytes(*b))
}

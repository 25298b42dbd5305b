//! The kernel's own symbols, from `/proc/kallsyms`: the core kernel, its modules, BPF programs.
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Largest symbol list read, bytes: ten times a large kernel's.
const MAX_LIST: u64 = 128 << 20;
/// How far a symbol reaches when nothing of the same owner follows, bytes. The list has no sizes.
const LAST_SYMBOL: u64 = 4096;

/// A symbol: sorted by `address`, names in one text.
struct Entry {
    address: u64,
    name_start: u32,
    name_length: u16,
    /// Which owner (the core kernel, a module, BPF) it belongs to.
    owner: u16,
    text: bool,
}

/// All symbols of the running kernel.
#[derive(Default)]
pub(crate) struct KernelSymbols {
    entries: Vec<Entry>,
    /// All names; they are ASCII.
    names: Vec<u8>,
    /// Names of the owners; the core kernel is the empty one.
    owners: Vec<String>,
}

/// Why there are no kernel symbols.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KernelError {
    #[error(
        "kernel symbols hidden: kernel.kptr_restrict is {0}; run as root with it at 0 or 1 (sysctl kernel.kptr_restrict=0)"
    )]
    Hidden(String),
    #[error("kernel symbols hidden: reading addresses takes CAP_SYSLOG; run as root")]
    NotAllowed,
    #[error(
        "kernel symbols unknown: cannot read {path}: {source}; the kernel needs CONFIG_KALLSYMS"
    )]
    Unreadable { path: String, source: io::Error },
}

impl KernelSymbols {
    /// Reads the list of the running kernel.
    pub(crate) fn read() -> Result<Self, KernelError> {
        Self::read_from(Path::new("/proc/kallsyms"))
    }

    /// Reads a list of the form of `/proc/kallsyms`.
    pub(crate) fn read_from(path: &Path) -> Result<Self, KernelError> {
        let unreadable = |source| KernelError::Unreadable {
            path: path.display().to_string(),
            source,
        };
        let symbols = File::open(path)
            .and_then(|file| Self::parse(BufReader::new(file.take(MAX_LIST))))
            .map_err(unreadable)?;
        if !symbols.entries.is_empty() {
            return Ok(symbols);
        }
        let restrict = std::fs::read_to_string("/proc/sys/kernel/kptr_restrict");
        match restrict.as_deref().map(str::trim) {
            Ok("0") | Err(_) => Err(KernelError::NotAllowed),
            Ok(level) => Err(KernelError::Hidden(level.to_owned())),
        }
    }

    /// Takes lines `ADDRESS TYPE NAME [MODULE]`. Hidden addresses (all zero) are left out.
    pub(crate) fn parse(mut list: impl BufRead) -> io::Result<Self> {
        let mut symbols = Self {
            owners: vec![String::new()],
            ..Self::default()
        };
        let mut line = Vec::new();
        while list.read_until(b'\n', &mut line)? > 0 {
            symbols.add(&line);
            line.clear();
        }
        symbols.entries.sort_by_key(|e| e.address);
        Ok(symbols)
    }

    /// Takes a line. This runs a hundred thousand times while somebody waits for an answer.
    fn add(&mut self, line: &[u8]) -> Option<()> {
        let (address, rest) = hex(line)?;
        let &[b' ', kind, b' ', ref rest @ ..] = rest else {
            return None;
        };
        let end = rest
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(rest.len());
        let (name, owner) = rest.split_at(end);
        if address == 0 || name.is_empty() || !name.is_ascii() {
            return None;
        }
        let entry = Entry {
            address,
            name_start: u32::try_from(self.names.len()).ok()?,
            name_length: u16::try_from(name.len()).ok()?,
            owner: self.owner(owner.trim_ascii()),
            text: matches!(kind, b't' | b'T' | b'w' | b'W'),
        };
        self.names.extend_from_slice(name);
        self.entries.push(entry);
        Some(())
    }

    /// Index of an owner; symbols of one owner mostly follow each other.
    fn owner(&mut self, name: &[u8]) -> u16 {
        let last = self.entries.last().map_or(0, |e| e.owner);
        if self.owners[usize::from(last)].as_bytes() == name {
            return last;
        }
        let name = String::from_utf8_lossy(name);
        let known = self.owners.iter().position(|o| *o == name);
        let index = known.unwrap_or_else(|| {
            if self.owners.len() < usize::from(u16::MAX) {
                self.owners.push(name.into_owned());
            }
            self.owners.len() - 1
        });
        index as u16
    }

    /// The function at `address`. None outside of the kernel's code.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|e| e.address <= address);
        let last = self.entries[..after].last()?;
        let same = &self.entries[self.entries.partition_point(|e| e.address < last.address)..after];
        let best = same
            .iter()
            .filter(|e| e.text)
            .min_by_key(|e| self.rank(e))?;
        let bounded = self
            .entries
            .get(after)
            .is_some_and(|next| next.owner == best.owner);
        // Past the last symbol of an owner lies whatever comes next in memory.
        let end = (best.address / LAST_SYMBOL + 1) * LAST_SYMBOL;
        (bounded || address < end).then(|| self.text_of(best))
    }

    fn text_of(&self, entry: &Entry) -> &str {
        let start = entry.name_start as usize;
        let name = &self.names[start..start + usize::from(entry.name_length)];
        std::str::from_utf8(name).unwrap_or_default()
    }

    /// Which of several names at one address reads best; smaller is better.
    fn rank<'a>(&'a self, entry: &Entry) -> (bool, usize, usize, &'a str) {
        let name = self.text_of(entry);
        // Marks where sections start, not functions.
        let mark = matches!(name, "_text" | "_stext" | "__init_begin" | "_sinittext");
        let underscores = name.bytes().take_while(|&b| b == b'_').count();
        (mark, underscores, name.len(), name)
    }
}

/// The number in hex digits that the line starts with, and what follows it.
fn hex(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (i, &digit) in line.iter().enumerate() {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return (1..=16).contains(&i).then(|| (value, &line[i..])),
        };
        value = value << 4 | u64::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T startup
ffffffff81000100 t helper
ffffffff81000200 W __weak
ffffffff81000200 W weak
ffffffff82000000 D _etext
ffffffffc0000000 t mod_init\t[foo]
ffffffffc0000040 t mod_work\t[foo]
ffffffffc0002000 t bpf_prog_6deef7357e7b4530_count\t[bpf]
garbage
zz t x
ffffffffc0003000 t
";

    fn name(address: u64) -> Option<String> {
        KernelSymbols::parse(LIST.as_bytes())
            .expect("a list")
            .name(address)
            .map(str::to_owned)
    }

    #[test]
    fn the_nearest_symbol_below_names_an_address() {
        assert_eq!(name(0xffffffff81000000).as_deref(), Some("startup"));
        assert_eq!(name(0xffffffff810001ff).as_deref(), Some("helper"));
        assert_eq!(name(0xffffffff81000208).as_deref(), Some("weak"));
        assert_eq!(name(0xffffffffc0000041).as_deref(), Some("mod_work"));
        assert_eq!(
            name(0xffffffffc0002fff).as_deref(),
            Some("bpf_prog_6deef7357e7b4530_count")
        );
    }

    #[test]
    fn gaps_and_data_have_no_name() {
        assert_eq!(name(0), None);
        assert_eq!(name(0xffffffff82000010), None);
        assert_eq!(name(0xffffffffc0001000), None);
        assert_eq!(name(0xffffffffc0003000), None);
        assert_eq!(name(u64::MAX), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        let list = "0000000000000000 T _stext\n0000000000000000 t helper\n";
        let symbols = KernelSymbols::parse(list.as_bytes()).expect("a list");
        assert!(symbols.entries.is_empty());
    }
}

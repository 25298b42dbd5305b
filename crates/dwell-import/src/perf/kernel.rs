//! Whether the names of the kernel that runs here are those of the kernel that recorded.
use super::bytes::Bytes;
use super::file::hex;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Symbols behind which the one that tells where the kernel lies is not looked for any more.
const FIRST_SYMBOLS: usize = 4096;

/// A list of the kernel's symbols that fits a recording; none when there is none. `build_id` is that of the
/// kernel that recorded (hex), `anchor` a symbol of it (`_text`) and where it was.
pub fn symbols(
    build_id: &str,
    anchor: Option<(&str, u64)>,
    cache: Option<&Path>,
) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let copy = cache.map(|c| c.join(".build-id").join(first).join(rest).join("kallsyms"));
    let running = running_build_id().is_some_and(|id| id == build_id);
    let running = running.then(|| PathBuf::from("/proc/kallsyms"));
    let mut lists = running.into_iter().chain(copy);
    lists.find(|list| match anchor {
        Some((symbol, address)) => address_of(list, symbol) == Some(address),
        None => false,
    })
}

/// Where a list has a symbol that is among its first.
fn address_of(list: &Path, symbol: &str) -> Option<u64> {
    let lines = BufReader::new(File::open(list).ok()?).lines();
    lines
        .take(FIRST_SYMBOLS)
        .map_while(Result::ok)
        .find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = words.next()?;
            let found = words.nth(1)? == symbol;
            found.then(|| u64::from_str_radix(address, 16).ok())?
        })
}

/// Hex.
fn running_build_id() -> Option<String> {
    const LIMIT: u64 = 1 << 16;
    let mut notes = Vec::new();
    let file = File::open("/sys/kernel/notes").ok()?;
    file.take(LIMIT).read_to_end(&mut notes).ok()?;
    build_id(&notes)
}

/// The build id among ELF notes.
fn build_id(notes: &[u8]) -> Option<String> {
    const GNU_BUILD_ID: u32 = 3;
    let mut b = Bytes::new(notes);
    loop {
        let (name, description, kind) = (b.u32()?, b.u32()?, b.u32()?);
        let name = b.take(u64::from(name).next_multiple_of(4))?;
        let found = b.take(u64::from(description).next_multiple_of(4))?;
        if name == b"GNU\0" && kind == GNU_BUILD_ID {
            return Some(hex(found.get(..description as usize)?));
        }
    }
}

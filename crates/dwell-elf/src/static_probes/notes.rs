//! The notes themselves: where the fields are.
use super::SkippedProbe;
use crate::ElfFile;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::NoteIterator;
use std::collections::HashMap;

/// Type of a probe's note, owner `stapsdt`.
const PROBE: u32 = 3;
/// Type of the note with the arguments' letters, owner `dwell`.
const KINDS: u32 = 1;
/// Alignment of the notes in their sections, bytes.
const ALIGNMENT: u64 = 4;

/// A probe as its note states it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note<'data> {
    pub location: u64,
    /// Where `.stapsdt.base` was when the note was written.
    base: u64,
    pub semaphore: u64,
    pub provider: &'data str,
    pub name: &'data str,
    pub arguments: &'data str,
}

impl Note<'_> {
    /// The address now: prelinking moves a file's sections, and leaves its notes as they are.
    pub fn adjusted(&self, address: u64, base_now: Option<u64>) -> u64 {
        adjusted(address, self.base, base_now)
    }
}

fn adjusted(address: u64, base_then: u64, base_now: Option<u64>) -> u64 {
    match base_now {
        Some(now) if base_then != 0 => address.wrapping_add(now.wrapping_sub(base_then)),
        _ => address,
    }
}

/// The letters of the arguments by the (adjusted) address of the site.
pub(super) type KindNotes<'data> = HashMap<u64, &'data [u8]>;

/// Every probe's note, or why it is none.
pub(super) fn read<'data>(
    file: &ElfFile<'data>,
) -> impl Iterator<Item = Result<Note<'data>, SkippedProbe>> {
    descriptions(file, ".note.stapsdt", b"stapsdt", PROBE).map(|description| {
        let unnamed = |why| SkippedProbe { name: None, why };
        probe(description.map_err(unnamed)?).map_err(unnamed)
    })
}

/// The letters that `dwell/sdt.h` wrote. What is damaged is left out: the probes are good without.
pub(super) fn read_kinds<'data>(file: &ElfFile<'data>, base_now: Option<u64>) -> KindNotes<'data> {
    descriptions(file, ".note.dwell", b"dwell", KINDS)
        .filter_map(|description| {
            let mut rest = description.ok()?;
            let location = word(&mut rest)?;
            let base = word(&mut rest)?;
            Some((adjusted(location, base, base_now), bytes(&mut rest)?))
        })
        .collect()
}

/// The descriptions of a section's notes of one owner and type. A note that is cut short ends it.
fn descriptions<'data>(
    file: &ElfFile<'data>,
    section: &str,
    owner: &'static [u8],
    kind: u32,
) -> impl Iterator<Item = Result<&'data [u8], &'static str>> + use<'data> {
    let sections: Vec<&'data [u8]> = file
        .sections()
        .filter(|(name, _)| *name == section.as_bytes())
        .filter_map(|(_, section)| section.raw_bytes())
        .collect();
    sections
        .into_iter()
        .filter_map(|bytes| NoteIterator::<elf::FileHeader64<LE>>::new(LE, ALIGNMENT, bytes).ok())
        .flatten()
        .filter_map(move |note| match note {
            Ok(note) if note.name() == owner && note.n_type(LE).0 == kind => Some(Ok(note.desc())),
            Ok(_) => None,
            Err(_) => Some(Err(
                "its note is cut short, and so is the file's list of probes",
            )),
        })
}

fn probe(mut rest: &[u8]) -> Result<Note<'_>, &'static str> {
    const SHORT: &str = "its note is cut short";
    let [location, base, semaphore] = [(); 3].map(|()| word(&mut rest));
    let mut text = || {
        let bytes = bytes(&mut rest).ok_or(SHORT)?;
        std::str::from_utf8(bytes).map_err(|_| "its note is not text")
    };
    let (provider, name, arguments) = (text()?, text()?, text()?);
    if provider.is_empty() || name.is_empty() {
        return Err("it has no name");
    }
    Ok(Note {
        location: location.ok_or(SHORT)?,
        base: base.ok_or(SHORT)?,
        semaphore: semaphore.ok_or(SHORT)?,
        provider,
        name,
        arguments,
    })
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*word))
}

/// The bytes up to the next 0.
fn bytes<'data>(rest: &mut &'data [u8]) -> Option<&'data [u8]> {
    let end = rest.iter().position(|&b| b == 0)?;
    let (bytes, after) = rest.split_at(end);
    *rest = &after[1..];
    Some(bytes)
}

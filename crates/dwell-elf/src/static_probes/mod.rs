//! Static probes: the places a program's author marked, as `sys/sdt.h` and `dwell/sdt.h` write them
//! into notes (`.note.stapsdt`).
//!
//! A note tells a provider, a name, the place of a one-byte nop, a semaphore, and in an assembler's words
//! where the arguments are. `dwell/sdt.h` adds a second note (`.note.dwell`) that tells which
//! arguments are pointers and floats.

mod argument;
mod grammar;
mod notes;
mod symbols;

pub use argument::{Argument, ArgumentKind, Place, Register};

use crate::ElfFile;
use notes::{KindNotes, Note};
use std::collections::HashMap;
use symbols::NamedData;

/// What stands at the site of a probe of `dwell/sdt.h`: a nop, then five bytes that are one instruction.
const DWELL_SITE: [u8; 6] = [0x90, 0x66, 0x0f, 0x1f, 0x40, 0x00];

/// A static probe at one place. The same probe may be at many places: each has a `StaticProbe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    /// Who defines the probe: a program, a library, a part of one.
    pub provider: String,
    /// The name as the note has it, where D has `-` for `__`: see [`StaticProbe::d_name`].
    pub name: String,
    /// Stated address of the site, a nop.
    pub address: u64,
    /// Stated address of the 16-bit count of those who watch the probe; none when the program does not
    /// ask. Who watches adds one, and takes it away at the end.
    pub semaphore: Option<u64>,
    /// The arguments in order; an error where one cannot be read.
    pub arguments: Vec<Result<Argument, UnreadableArgument>>,
    /// Stated address of five bytes after the site that are one instruction doing nothing: a
    /// jump can be written there, and no thread is ever in the middle. Only `dwell/sdt.h` leaves them.
    pub jump_site: Option<u64>,
}

impl StaticProbe {
    /// The name in D: `order__done` is `order-done`.
    pub fn d_name(&self) -> String {
        self.name.replace("__", "-")
    }
}

/// An argument that is there but cannot be read; the probe itself can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the argument `{text}` cannot be read: {why}")]
pub struct UnreadableArgument {
    /// The note's words.
    pub text: String,
    /// What is wrong or unknown.
    pub why: &'static str,
}

/// A note that describes no usable probe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("static probe {}skipped: {why}", .name.as_ref().map(|n| format!("{n} ")).unwrap_or_default())]
pub struct SkippedProbe {
    /// `provider:name`, when the note is good enough to tell.
    pub name: Option<String>,
    /// What is wrong.
    pub why: &'static str,
}

/// The static probes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticProbes {
    /// Those that can be used, in the order of their notes.
    pub probes: Vec<StaticProbe>,
    /// Those that cannot.
    pub skipped: Vec<SkippedProbe>,
}

impl<'data> ElfFile<'data> {
    /// The file's static probes. Empty for a file that has none; what is damaged is in
    /// [`StaticProbes::skipped`]. Takes time and memory in proportion to the notes, and to the
    /// symbol tables when an argument names a variable.
    pub fn static_probes(&self) -> StaticProbes {
        let mut found = StaticProbes::default();
        let notes: Vec<Note> = notes::read(self)
            .filter_map(|note| note.map_err(|skipped| found.skipped.push(skipped)).ok())
            .collect();
        let base = self.section(".stapsdt.base").map(|s| s.stated_address());
        let kinds = notes::read_kinds(self, base);
        let names = symbols::wanted(notes.iter().map(|note| note.arguments));
        let data = NamedData::find(self, &names);
        for note in notes {
            match self.probe(&note, base, &kinds, &data) {
                Ok(probe) => found.probes.push(probe),
                Err(why) => found.skipped.push(SkippedProbe {
                    name: Some(format!("{}:{}", note.provider, note.name)),
                    why,
                }),
            }
        }
        found
    }

    fn probe(
        &self,
        note: &Note,
        base: Option<u64>,
        kinds: &KindNotes,
        data: &NamedData,
    ) -> Result<StaticProbe, &'static str> {
        let address = note.adjusted(note.location, base);
        if !self.is_code(address) {
            return Err("it is not in the program's code; the linker dropped its function");
        }
        let letters = kinds.get(&address).copied();
        Ok(StaticProbe {
            provider: note.provider.to_owned(),
            name: note.name.to_owned(),
            address,
            semaphore: Some(note.semaphore)
                .filter(|&at| at != 0)
                .map(|at| note.adjusted(at, base)),
            arguments: arguments(note.arguments, letters, data),
            jump_site: letters
                .and_then(|_| self.bytes_at(address, DWELL_SITE.len()))
                .filter(|&bytes| bytes == DWELL_SITE)
                .map(|_| address + 1),
        })
    }

    fn is_code(&self, address: u64) -> bool {
        self.segments()
            .any(|s| s.executable && (s.stated_address..s.stated_end()).contains(&address))
    }
}

/// The arguments that `text` describes; `letters` has one per argument where `dwell/sdt.h` wrote them.
fn arguments(
    text: &str,
    letters: Option<&[u8]>,
    data: &NamedData,
) -> Vec<Result<Argument, UnreadableArgument>> {
    let mut arguments: Vec<_> = grammar::words(text)
        .map(|word| {
            grammar::argument(word, &|symbol| data.address(symbol)).map_err(|why| {
                UnreadableArgument {
                    text: word.to_owned(),
                    why,
                }
            })
        })
        .collect();
    if let Some(letters) = letters.filter(|letters| letters.len() == arguments.len()) {
        for (argument, letter) in arguments.iter_mut().zip(letters) {
            if let (Ok(argument), Some(kind)) = (argument, ArgumentKind::from_letter(*letter)) {
                argument.set_kind(kind);
            }
        }
    }
    arguments
}

/// Variables by name.
pub(crate) type Names<'a> = HashMap<&'a [u8], Option<u64>>;

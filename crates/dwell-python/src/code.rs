//! What code is called.
use crate::interpreter::Python;
use crate::lines::Lines;
use dwell_abi::events::identity;
use dwell_maps::Memory;

/// A place in Python code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The function's name, with those around it: `Class.method`, `function.<locals>.inner`. Of a module's own code the module's:
    /// `<module asyncio>`.
    pub function: String,
    /// As the interpreter has it.
    pub file: String,
    /// That of the instruction, or, where that is not known, the function's first.
    pub line: Option<u32>,
}

/// Most characters of a name that are read.
const LONGEST: u64 = 4096;
/// Most bytes of a table of lines that are read: of larger code the lines are not known.
const LARGEST: u64 = 1 << 16;

/// Code with all that names its places: it stays when the code goes.
#[derive(Clone, Debug)]
pub struct Source {
    function: String,
    file: String,
    first_line: i32,
    lines: Vec<u8>,
    format: Lines,
}

/// The first line of code of which that is not known.
const NO_LINE: i32 = -1;

impl Source {
    /// Of code that is gone, what was told of it: its name and its file, in ASCII.
    pub fn told(function: &[u8], file: &[u8]) -> Option<Self> {
        let text = |bytes: &[u8]| {
            let is_text =
                !bytes.is_empty() && bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
            is_text.then(|| String::from_utf8_lossy(bytes).into_owned())
        };
        Some(Source {
            function: text(function)?,
            file: text(file)?,
            first_line: NO_LINE,
            lines: Vec::new(),
            format: Lines::Locations,
        })
    }

    /// All modules' code has the same name: they are told apart by their files'.
    fn called(&self) -> String {
        match (self.function.as_str(), module_of(&self.file)) {
            (MODULE, Some(module)) => format!("<module {module}>"),
            (function, _) => function.to_owned(),
        }
    }

    /// Whether this is no more than what was told of it.
    pub fn is_told(&self) -> bool {
        self.first_line == NO_LINE
    }

    /// What it takes in memory, bytes, but for some.
    pub fn bytes(&self) -> usize {
        self.function.len() + self.file.len() + self.lines.len()
    }

    /// What one of its instructions (a code unit of 2 bytes) is called.
    pub fn at(&self, instruction: Option<u32>) -> Code {
        let line = instruction.and_then(|at| self.format.line(&self.lines, self.first_line, at));
        Code {
            function: self.called(),
            file: self.file.clone(),
            line: u32::try_from(line.unwrap_or(self.first_line)).ok(),
        }
    }
}

/// What a module's own code is called.
const MODULE: &str = "<module>";

/// The last part of a module's name, by its file, or by what stands for that where it is built in: `<frozen os>`.
fn module_of(file: &str) -> Option<&str> {
    if let Some(frozen) = file.strip_prefix("<frozen ") {
        return frozen.strip_suffix('>');
    }
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name.split_once('.')?.0 {
        "__init__" => folder.rsplit('/').next(),
        module => Some(module),
    }
    .filter(|module| !module.is_empty())
}

impl Python {
    /// The code at an actual address; none when no code is there.
    pub fn source(&self, memory: &impl Memory, code: u64) -> Option<Source> {
        let layout = &self.layout;
        self.identity(memory, code)?;
        let word = |offset: u64| memory.word(code.checked_add(offset)?);
        Some(Source {
            function: self.text(memory, word(layout.qualified_name)?)?,
            file: self.text(memory, word(layout.file_name)?)?,
            first_line: memory.int(code.checked_add(layout.first_line)?)?,
            lines: self
                .bytes(memory, word(layout.line_table)?)
                .unwrap_or_default(),
            format: layout.lines,
        })
    }

    /// The [`identity`] of the code at an actual address; none when no code is there.
    pub fn identity(&self, memory: &impl Memory, code: u64) -> Option<u32> {
        let layout = &self.layout;
        let kind = memory.word(code.checked_add(layout.object_type)?)?;
        (kind == self.code_type).then_some(())?;
        let mut names = [0; 4];
        let (names_at, file) = self.names;
        for (name, at) in names.iter_mut().zip((names_at..).step_by(8)) {
            *name = memory.word(code.checked_add(at)?)?;
        }
        let hash = |text: u64| memory.word(text.checked_add(layout.text_hash)?);
        Some(identity(names, [hash(names[file])?, hash(names[2])?]))
    }

    fn bytes(&self, memory: &impl Memory, object: u64) -> Option<Vec<u8>> {
        let size = memory.word(object.checked_add(self.layout.bytes_size)?)?;
        (size <= LARGEST).then_some(())?;
        let mut bytes = vec![0; size as usize];
        let data = object.checked_add(self.layout.bytes_data)?;
        memory.read(data, &mut bytes).then_some(bytes)
    }

    /// A string: `PyASCIIObject` and what is made of it. Its state has bits of how wide characters are, whether they follow
    /// the head, and whether all are ASCII; before them come 2 bits or, in some builds, one byte or two.
    fn text(&self, memory: &impl Memory, object: u64) -> Option<String> {
        let layout = &self.layout;
        let length = memory.word(object.checked_add(layout.text_length)?)?;
        let state = memory.int(object.checked_add(layout.text_state)?)? as u32;
        let (width, is_ascii) = [2, 8, 16].iter().find_map(|shift| {
            let state = state >> shift;
            let (width, is_compact, is_ascii) = (state & 7, state >> 3 & 1, state >> 4 & 1);
            ([1, 2, 4].contains(&width) && is_compact == 1).then_some((width, is_ascii == 1))
        })?;
        (length <= LONGEST).then_some(())?;
        let data = match is_ascii {
            true => layout.ascii_text,
            false => layout.other_text,
        };
        let mut bytes = vec![0; length as usize * width as usize];
        memory
            .read(object.checked_add(data)?, &mut bytes)
            .then_some(())?;
        let characters = bytes.chunks(width as usize).map(|piece| {
            let number = piece
                .iter()
                .rev()
                .fold(0, |high, byte| high << 8 | u32::from(*byte));
            char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
        });
        Some(characters.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules() {
        let cases = [
            ("/usr/lib/python3.11/asyncio/__init__.py", Some("asyncio")),
            ("/usr/lib/python3.11/json/decoder.py", Some("decoder")),
            ("app.py", Some("app")),
            ("__init__.py", None),
            (
                "<frozen importlib._bootstrap>",
                Some("importlib._bootstrap"),
            ),
            ("<string>", None),
            ("", None),
        ];
        for (file, expected) in cases {
            assert_eq!(module_of(file), expected, "{file}");
        }
    }
}

//! Where the fields lie that matter.
use crate::lines::Lines;
use dwell_maps::Memory;

/// Offsets in bytes, each from the start of the struct that has the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `_PyRuntimeState`: its first interpreter.
    pub interpreters: u64,
    /// `PyInterpreterState`: the next one, and its first thread.
    pub next_interpreter: u64,
    pub threads: u64,
    /// `PyThreadState`.
    pub next_thread: u64,
    /// The thread pointer, as `pthread_self` tells it.
    pub thread_id: u64,
    /// Its number in its own PID namespace, in versions that have it.
    pub native_thread_id: Option<u64>,
    pub thread_frame: u64,
    /// The innermost frame, in versions in which each C frame executes one alone, and so does not tell it.
    pub single_frame: Option<u64>,
    /// `_PyCFrame`, in versions that have it: where the innermost frame is told, and the next one further out.
    pub group: Option<(u64, u64)>,
    /// `_PyInterpreterFrame`, or `PyFrameObject`.
    pub frame_code: u64,
    pub frame_previous: u64,
    /// The address of the instruction; where there is a `single_frame` its index, or, without a `group`, its distance in bytes.
    pub frame_instruction: u64,
    pub frame_owner: u64,
    /// Whether it is the outermost one that a C frame executes, in versions that have no frame between these.
    pub frame_entry: Option<u64>,
    /// `PyCodeObject`.
    pub file_name: u64,
    /// The function's name, qualified in versions that have that.
    pub qualified_name: u64,
    pub first_line: u64,
    pub line_table: u64,
    pub lines: Lines,
    pub bytecode: u64,
    /// `PyObject`, `PyBytesObject`, `PyASCIIObject`.
    pub object_type: u64,
    pub bytes_size: u64,
    pub bytes_data: u64,
    pub text_length: u64,
    pub text_hash: u64,
    pub text_state: u64,
    pub ascii_text: u64,
    /// Text that is not ASCII begins further on.
    pub other_text: u64,
}

/// Of all versions that are known: CPython's headers, as a C compiler lays them out for x86-64.
const SINCE_3_8: Layout = Layout {
    thread_frame: 24,
    group: None,
    frame_instruction: 104,
    lines: Lines::Pairs,
    ..OF_3_10
};
const OF_3_10: Layout = Layout {
    interpreters: 32,
    threads: 8,
    thread_id: 176,
    native_thread_id: None,
    thread_frame: 48,
    single_frame: Some(24),
    group: Some((0, 8)),
    frame_previous: 24,
    frame_instruction: 96,
    frame_entry: None,
    file_name: 104,
    qualified_name: 112,
    first_line: 40,
    line_table: 120,
    lines: Lines::Ranges,
    ..SINCE_3_11
};
const SINCE_3_11: Layout = Layout {
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    next_thread: 8,
    thread_id: 152,
    native_thread_id: Some(160),
    thread_frame: 56,
    single_frame: None,
    group: Some((8, 16)),
    frame_code: 32,
    frame_previous: 48,
    frame_instruction: 56,
    frame_owner: 69,
    frame_entry: Some(68),
    file_name: 112,
    qualified_name: 128,
    first_line: 72,
    line_table: 136,
    lines: Lines::Locations,
    bytecode: 184,
    object_type: 8,
    bytes_size: 16,
    bytes_data: 32,
    text_length: 16,
    text_hash: 24,
    text_state: 32,
    ascii_text: 48,
    other_text: 72,
};
const SINCE_3_12: Layout = Layout {
    threads: 72,
    thread_id: 136,
    native_thread_id: Some(144),
    group: Some((0, 8)),
    frame_code: 0,
    frame_previous: 8,
    frame_owner: 70,
    frame_entry: None,
    first_line: 68,
    bytecode: 192,
    ascii_text: 40,
    other_text: 56,
    ..SINCE_3_11
};

impl Layout {
    /// Where code has the addresses that tells it from other code ([`dwell_abi::events::identity`]), of which the third one is
    /// that of the function's name; and which one is that of the file's. None where they do not lie like that.
    pub fn names(&self) -> Option<(u64, usize)> {
        let at = self.qualified_name.checked_sub(16)?;
        let file = self.file_name.checked_sub(at)? / 8;
        let is_usual = self.line_table == at + 24 && self.file_name == at + 8 * file && file < 2;
        is_usual.then_some((at, file as usize))
    }

    /// Whether something in C frames tells which of Python's frames they execute.
    pub fn tells_c_frames(&self) -> bool {
        self.single_frame.is_none() || self.group.is_some()
    }

    /// That of a version (major in the upper byte, then minor), which may have written it at the start of its runtime.
    pub fn of(version: u16, memory: &impl Memory, runtime: u64) -> Option<Layout> {
        match version {
            0x0308 | 0x0309 => Some(SINCE_3_8),
            0x030a => Some(OF_3_10),
            0x030b => Some(SINCE_3_11),
            0x030c => Some(SINCE_3_12),
            0x030d => Structs::read(memory, runtime, &SINCE_3_13)?.layout(),
            0x030e => Structs::read(memory, runtime, &SINCE_3_14)?.layout(),
            _ => None,
        }
    }
}

/// Which words of `_Py_DebugOffsets` have the sizes of structs, behind which the offsets of their fields come.
struct Stated {
    thread: usize,
    frame: usize,
    code: usize,
    object: usize,
    bytes: usize,
    text: usize,
}

const RUNTIME: usize = 3;
const INTERPRETER: usize = 6;
const SINCE_3_13: Stated = Stated {
    thread: 19,
    frame: 28,
    code: 34,
    object: 44,
    bytes: 64,
    text: 67,
};
const SINCE_3_14: Stated = Stated {
    thread: 22,
    frame: 31,
    code: 39,
    object: 50,
    bytes: 74,
    text: 77,
};

/// Most bytes of a struct: an interpreter's state has some hundred KiB.
const LARGEST: u64 = 1 << 24;

/// What a Python states.
struct Structs<'s> {
    words: Vec<u64>,
    at: &'s Stated,
}

impl<'s> Structs<'s> {
    fn read(memory: &impl Memory, runtime: u64, at: &'s Stated) -> Option<Self> {
        let mut bytes = vec![0; 8 * (at.text + 4)];
        let is_read = memory.read(runtime, &mut bytes) && bytes.starts_with(b"xdebugpy");
        let words = bytes.as_chunks().0.iter().copied();
        is_read.then(|| Structs {
            words: words.map(u64::from_le_bytes).collect(),
            at,
        })
    }

    /// The offset of a field of a struct.
    fn field(&self, of: usize, nth: usize) -> Option<u64> {
        let size = *self.words.get(of)?;
        let offset = *self.words.get(of + nth)?;
        (offset < size && size < LARGEST).then_some(offset)
    }

    fn layout(&self) -> Option<Layout> {
        let at = self.at;
        Some(Layout {
            interpreters: self.field(RUNTIME, 2)?,
            next_interpreter: self.field(INTERPRETER, 2)?,
            threads: self.field(INTERPRETER, 3)?,
            next_thread: self.field(at.thread, 2)?,
            thread_frame: self.field(at.thread, 4)?,
            thread_id: self.field(at.thread, 5)?,
            native_thread_id: Some(self.field(at.thread, 6)?),
            single_frame: None,
            group: None,
            frame_previous: self.field(at.frame, 1)?,
            frame_code: self.field(at.frame, 2)?,
            frame_instruction: self.field(at.frame, 3)?,
            frame_owner: self.field(at.frame, 5)?,
            frame_entry: None,
            file_name: self.field(at.code, 1)?,
            qualified_name: self.field(at.code, 3)?,
            line_table: self.field(at.code, 4)?,
            lines: Lines::Locations,
            first_line: self.field(at.code, 5)?,
            bytecode: self.field(at.code, 9)?,
            object_type: self.field(at.object, 1)?,
            bytes_size: self.field(at.bytes, 1)?,
            bytes_data: self.field(at.bytes, 2)?,
            text_state: self.field(at.text, 1)?,
            text_length: self.field(at.text, 2)?,
            // Behind the length in all versions, though not stated.
            text_hash: self.field(at.text, 2)? + 8,
            // Its size, where the text begins, or the length and the address of what it is in UTF-8.
            ascii_text: self.field(at.text, 3)?,
            other_text: self.field(at.text, 3)? + 16,
        })
    }
}

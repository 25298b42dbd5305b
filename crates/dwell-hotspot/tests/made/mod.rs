//! The tables of a JVM, made: those of version 17 or 25 as far as they matter, and memory that is all the rest.
use dwell_hotspot::{Jvm, SYMBOLS};
use dwell_maps::Memory;
use std::collections::HashMap;

/// Where the tables are; what lies below is the caller's.
pub const TABLES: u64 = 1 << 40;

/// What static variables of the JVM point to.
pub const HEAP_ARRAY_AT: u64 = 0x100;
pub const INTERPRETER_AT: u64 = 0x108;
pub const COLLECTED_HEAP_AT: u64 = 0x110;
pub const LOADERS_AT: u64 = 0x118;

/// Class, field, type, offset, and the address of a static one.
type Field = (&'static str, &'static str, &'static str, u64, u64);

const ALWAYS: &[Field] = &[
    (
        "CodeCache",
        "_heaps",
        "GrowableArray<CodeHeap*>*",
        0,
        HEAP_ARRAY_AT,
    ),
    (
        "AbstractInterpreter",
        "_code",
        "StubQueue*",
        0,
        INTERPRETER_AT,
    ),
    (
        "Universe",
        "_collectedHeap",
        "CollectedHeap*",
        0,
        COLLECTED_HEAP_AT,
    ),
    (
        "ClassLoaderDataGraph",
        "_head",
        "ClassLoaderData*",
        0,
        LOADERS_AT,
    ),
    ("CollectedHeap", "_total_collections", "unsigned int", 64, 0),
    ("GrowableArrayBase", "_len", "int", 0, 0),
    ("GrowableArray<int>", "_data", "int*", 8, 0),
    ("CodeHeap", "_memory", "VirtualSpace", 8, 0),
    ("CodeHeap", "_segmap", "VirtualSpace", 40, 0),
    ("CodeHeap", "_log2_segment_size", "int", 72, 0),
    ("VirtualSpace", "_low_boundary", "char*", 0, 0),
    ("VirtualSpace", "_high_boundary", "char*", 8, 0),
    ("VirtualSpace", "_low", "char*", 16, 0),
    ("StubQueue", "_stub_buffer", "address", 8, 0),
    ("StubQueue", "_buffer_limit", "int", 20, 0),
    ("CodeBlob", "_name", "const char*", 96, 0),
    ("CodeBlob", "_size", "int", 12, 0),
    ("CodeBlob", "_frame_size", "int", 28, 0),
    ("Method", "_constMethod", "ConstMethod*", 8, 0),
    ("ConstMethod", "_constants", "ConstantPool*", 8, 0),
    ("ConstMethod", "_flags", "u2", 28, 0),
    ("ConstMethod", "_code_size", "u2", 32, 0),
    ("ConstMethod", "_name_index", "u2", 34, 0),
    ("ConstantPool", "_pool_holder", "InstanceKlass*", 24, 0),
    ("ConstantPool", "_source_file_name_index", "u2", 54, 0),
    ("Klass", "_name", "Symbol*", 24, 0),
    ("Symbol", "_length", "u2", 4, 0),
    ("Symbol", "_body", "", 6, 0),
    ("nmethod", "_compile_id", "int", 304, 0),
    ("nmethod", "_scopes_pcs_offset", "int", 268, 0),
];
const OF_17: &[Field] = &[
    ("CodeBlob", "_frame_complete_offset", "int", 20, 0),
    ("CodeBlob", "_code_begin", "address", 32, 0),
    ("CompiledMethod", "_method", "Method*", 112, 0),
    ("CompiledMethod", "_scopes_data_begin", "address", 120, 0),
    ("nmethod", "_metadata_offset", "int", 260, 0),
    ("nmethod", "_dependencies_offset", "int", 272, 0),
];
const OF_25: &[Field] = &[
    ("CodeBlob", "_frame_complete_offset", "int16_t", 20, 0),
    ("CodeBlob", "_code_offset", "int", 32, 0),
    ("CodeBlob", "_mutable_data", "address", 16, 0),
    ("CodeBlob", "_relocation_size", "int", 40, 0),
    ("nmethod", "_method", "Method*", 112, 0),
    ("nmethod", "_immutable_data", "address", 120, 0),
    ("nmethod", "_scopes_data_offset", "int", 260, 0),
];

/// A made JVM's memory: `below` the tables, and the tables.
pub struct Made<F> {
    tables: Vec<u8>,
    symbols: HashMap<String, u64>,
    below: F,
}

impl<F: Fn(u64) -> Option<u8>> Made<F> {
    /// Of a version; `below` gives the byte at an address below [`TABLES`].
    pub fn new(version: u32, below: F) -> Self {
        let mut made = Made {
            tables: Vec::new(),
            symbols: HashMap::new(),
            below,
        };
        let is_new = version >= 23;
        let version_at = made.add(version.into());
        let mut words = Vec::new();
        let of_version = if is_new { OF_25 } else { OF_17 };
        let told = (
            "Abstract_VM_Version",
            "_vm_major_version",
            "int",
            0,
            version_at,
        );
        for &(class, field, kind, offset, address) in ALWAYS.iter().chain(of_version).chain([&told])
        {
            words.extend([class, field, kind].map(|text| made.text(text)));
            words.extend([u64::from(address != 0), offset, address]);
        }
        words.extend([0; 6]);
        made.table("Struct", 48, &words);
        for (name, at) in [
            "TypeName",
            "FieldName",
            "TypeString",
            "IsStatic",
            "Offset",
            "Address",
        ]
        .into_iter()
        .zip((0..).step_by(8))
        {
            made.variable(&format!("StructEntry{name}Offset"), at);
        }
        let sizes = [
            ("HeapBlock", if is_new { 8 } else { 16 }),
            ("ConstMethod", 48),
            ("ConstantPool", 72),
        ];
        let mut words = Vec::new();
        for (name, size) in sizes {
            words.extend([made.text(name), size]);
        }
        words.extend([0; 2]);
        made.table("Type", 16, &words);
        made.variable("TypeEntryTypeNameOffset", 0);
        made.variable("TypeEntrySizeOffset", 8);
        made
    }

    /// The JVM by its tables.
    pub fn jvm(&self) -> Option<Jvm> {
        Jvm::read(self, |name| self.symbols.get(name).copied()).ok()
    }

    fn table(&mut self, kind: &str, stride: u64, words: &[u64]) {
        let at = TABLES + self.tables.len() as u64;
        words.iter().for_each(|word| {
            self.add(*word);
        });
        self.variable(&format!("{kind}s"), at);
        self.variable(&format!("{kind}EntryArrayStride"), stride);
    }

    fn variable(&mut self, name: &str, value: u64) {
        let at = self.add(value);
        self.symbols.insert(format!("{SYMBOLS}{name}"), at);
    }

    fn add(&mut self, word: u64) -> u64 {
        let at = TABLES + self.tables.len() as u64;
        self.tables.extend_from_slice(&word.to_le_bytes());
        at
    }

    fn text(&mut self, text: &str) -> u64 {
        let at = TABLES + self.tables.len() as u64;
        self.tables.extend_from_slice(text.as_bytes());
        self.tables.push(0);
        self.tables.resize(self.tables.len().next_multiple_of(8), 0);
        at
    }
}

impl<F: Fn(u64) -> Option<u8>> Memory for Made<F> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        for (n, byte) in into.iter_mut().enumerate() {
            let at = address.wrapping_add(n as u64);
            let found = match at.checked_sub(TABLES) {
                // What is read at once may end behind them.
                Some(at) if at < 1 << 20 => {
                    Some(self.tables.get(at as usize).copied().unwrap_or(0))
                }
                Some(_) => None,
                None => (self.below)(at),
            };
            let Some(found) = found else {
                return false;
            };
            *byte = found;
        }
        true
    }
}

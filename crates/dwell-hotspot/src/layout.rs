//! What of a JVM's layout matters here, of versions from 9 on (tried with 11, 17, 21 and 25).
use crate::structs::Structs;
use dwell_abi::events::CodeHeap;
use dwell_maps::Memory;
use std::ops::Range;

/// Most code heaps of one JVM: there are three, or one.
const MOST_HEAPS: u64 = 16;

/// Why there is no JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJvm {
    /// Its tables cannot be read: its library may not be ready yet.
    NotYet,
    /// They lack what is needed, as those of versions before 9.
    Unknown,
}

/// A running JVM.
#[derive(Clone, Debug)]
pub struct Jvm {
    pub(crate) heaps: Heaps,
    pub(crate) blob: BlobFields,
    pub(crate) methods: MethodFields,
    /// Where the pointer to what counts garbage collections lies, and that count within; none where that is not told.
    collections: Option<[u64; 2]>,
    /// Where the pointer to the youngest loader of classes lies.
    loaders: Option<u64>,
    /// How many of the smallest bytes packed integers leave out (`Packed`); none where the version is not told.
    pub(crate) excluded: Option<u32>,
    /// None where the tables do not tell of inlined methods.
    pub(crate) scopes: Option<Scopes>,
    /// Offset of a `ConstMethod`'s flags; none where they do not tell of lines.
    pub(crate) flags: Option<u64>,
}

/// How to find the code heaps.
#[derive(Clone, Debug)]
pub(crate) struct Heaps {
    /// Where the pointer to the array of heaps lies, and that to the interpreter's queue of stubs.
    array: u64,
    interpreter: u64,
    array_length: u64,
    array_data: u64,
    memory: u64,
    segment_map: u64,
    segment_shift: u64,
    low: u64,
    low_boundary: u64,
    high_boundary: u64,
    stub_buffer: u64,
    stub_limit: u64,
}

/// Of a blob of code, by offsets in it.
#[derive(Clone, Debug)]
pub(crate) struct BlobFields {
    pub(crate) header: u8,
    pub(crate) name: u64,
    pub(crate) size: u64,
    pub(crate) method: u64,
    pub(crate) compile_id: u16,
    frame_size: u8,
    frame_complete: u8,
    frame_complete_bytes: u8,
    code: u8,
    code_by_offset: bool,
}

/// From a method to its name.
#[derive(Clone, Debug)]
pub(crate) struct MethodFields {
    pub(crate) constant: u8,
    /// Within a `ConstMethod`, whose bytes the code follows.
    pub(crate) code_size: u8,
    pub(crate) constant_bytes: u8,
    pub(crate) constants: u64,
    pub(crate) name_index: u64,
    pub(crate) pool_holder: u64,
    pub(crate) pool_size: u64,
    pub(crate) class_name: u64,
    pub(crate) symbol_length: u64,
    pub(crate) symbol_body: u64,
    /// Of a constant pool, or of a class in versions before 14.
    pub(crate) source_file: SourceFile,
}

/// Where the index of a source file's name is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceFile {
    OfPool(u64),
    OfClass(u64),
    Unknown,
}

/// From a place in compiled code to the methods there.
#[derive(Clone, Debug)]
pub(crate) struct Scopes {
    places: u64,
    apart: Apart,
}

/// Where the tables of a compiled method lie.
#[derive(Clone, Debug)]
enum Apart {
    /// In its blob, by offsets of offsets.
    Not {
        metadata: u64,
        data: u64,
        places_end: u64,
    },
    /// Outside, since 25.
    Yes {
        immutable: u64,
        mutable: u64,
        relocations: u64,
        data: u64,
    },
}

/// Addresses of the tables of a compiled method.
pub(crate) struct Tables {
    pub(crate) places: u64,
    pub(crate) places_end: u64,
    pub(crate) data: u64,
    pub(crate) metadata: u64,
}

impl Jvm {
    /// Reads its tables. `symbol` gives the actual address of a variable of its `libjvm.so`, which are named
    /// [`crate::SYMBOLS`] and more.
    pub fn read(memory: &impl Memory, symbol: impl Fn(&str) -> Option<u64>) -> Result<Jvm, NoJvm> {
        let structs = Structs::read(memory, symbol).ok_or(NoJvm::NotYet)?;
        Self::of(&structs, memory).ok_or(NoJvm::Unknown)
    }

    fn of(structs: &Structs, memory: &impl Memory) -> Option<Jvm> {
        Some(Jvm {
            heaps: Heaps::of(structs)?,
            blob: BlobFields::of(structs)?,
            methods: MethodFields::of(structs)?,
            loaders: structs.address("ClassLoaderDataGraph::_head"),
            collections: structs
                .address("Universe::_collectedHeap")
                .zip(structs.offset(&["CollectedHeap::_total_collections"]))
                .map(<[u64; 2]>::from),
            excluded: excluded(structs, memory),
            scopes: Scopes::of(structs),
            flags: structs.offset(&["ConstMethod::_flags", "ConstMethod::_flags._flags"]),
        })
    }

    /// Whether it can be read at all.
    pub fn is_there(&self, memory: &impl Memory) -> bool {
        memory.word(self.heaps.array).is_some()
    }

    /// What changes when classes go, and when others come to where they were: the number of garbage collections, and the
    /// youngest loader of classes. None where that is not told.
    pub fn epoch(&self, memory: &impl Memory) -> [Option<u64>; 2] {
        let collections = self.collections.and_then(|[heap, count]| {
            let count = memory.word(heap)?.checked_add(count)?;
            memory.int(count)
        });
        [
            collections.map(|count| u64::from(count as u32)),
            self.loaders.and_then(|head| memory.word(head)),
        ]
    }

    /// The code heaps that there are now, each with the memory that it may grow into.
    pub fn code_heaps(&self, memory: &impl Memory) -> Vec<(Range<u64>, CodeHeap)> {
        self.find_heaps(memory).unwrap_or_default()
    }

    fn find_heaps(&self, memory: &impl Memory) -> Option<Vec<(Range<u64>, CodeHeap)>> {
        let at = &self.heaps;
        let array = memory.word(at.array)?;
        let length = memory.int(array.wrapping_add(at.array_length))?;
        let data = memory.word(array.wrapping_add(at.array_data))?;
        let interpreter = self.interpreter(memory).unwrap_or_default();
        let heap = |n: u64| {
            let heap = memory.word(data.wrapping_add(8 * n))?;
            let space = heap.wrapping_add(at.memory);
            let word = |at: u64| memory.word(at);
            let [low, start, end] = [
                word(space.wrapping_add(at.low))?,
                word(space.wrapping_add(at.low_boundary))?,
                word(space.wrapping_add(at.high_boundary))?,
            ];
            let segments = heap.wrapping_add(at.segment_map);
            let shift = memory.int(heap.wrapping_add(at.segment_shift))?;
            let row = CodeHeap {
                low,
                segment_map: word(segments.wrapping_add(at.low))?,
                interpreter_start: interpreter.start,
                interpreter_end: interpreter.end,
                segment_shift: u8::try_from(shift).ok().filter(|shift| *shift < 32)?,
                header: self.blob.header,
                frame_size_at: self.blob.frame_size,
                frame_complete_at: self.blob.frame_complete,
                frame_complete_bytes: self.blob.frame_complete_bytes,
                code_at: self.blob.code,
                code_by_offset: self.blob.code_by_offset.into(),
                constant_at: self.methods.constant,
                code_size_at: self.methods.code_size,
                constant_bytes: self.methods.constant_bytes,
                compile_id_at: self.blob.compile_id,
                pad: [0; 4],
            };
            (start <= low && low < end && low != 0).then_some((start..end, row))
        };
        let length = u64::try_from(length).ok()?.min(MOST_HEAPS);
        Some((0..length).filter_map(heap).collect())
    }

    /// The interpreter's code; none before it is made.
    fn interpreter(&self, memory: &impl Memory) -> Option<Range<u64>> {
        let queue = memory.word(self.heaps.interpreter)?;
        let start = memory.word(queue.checked_add(self.heaps.stub_buffer)?)?;
        let length = memory.int(queue.checked_add(self.heaps.stub_limit)?)?;
        let end = start.checked_add(u64::try_from(length).ok()?)?;
        (queue != 0 && start != 0).then_some(start..end)
    }
}

impl Heaps {
    fn of(structs: &Structs) -> Option<Self> {
        Some(Heaps {
            array: structs.address("CodeCache::_heaps")?,
            interpreter: structs.address("AbstractInterpreter::_code")?,
            array_length: structs
                .offset(&["GrowableArrayBase::_len", "GenericGrowableArray::_len"])?,
            array_data: structs.offset(&["GrowableArray<int>::_data"])?,
            memory: structs.offset(&["CodeHeap::_memory"])?,
            segment_map: structs.offset(&["CodeHeap::_segmap"])?,
            segment_shift: structs.offset(&["CodeHeap::_log2_segment_size"])?,
            low: structs.offset(&["VirtualSpace::_low"])?,
            low_boundary: structs.offset(&["VirtualSpace::_low_boundary"])?,
            high_boundary: structs.offset(&["VirtualSpace::_high_boundary"])?,
            stub_buffer: structs.offset(&["StubQueue::_stub_buffer"])?,
            stub_limit: structs.offset(&["StubQueue::_buffer_limit"])?,
        })
    }
}

/// What the kernel side keeps in a byte.
fn narrow(offset: u64) -> Option<u8> {
    u8::try_from(offset).ok()
}

impl BlobFields {
    fn of(structs: &Structs) -> Option<Self> {
        let complete = structs.field(&["CodeBlob::_frame_complete_offset"])?;
        let code = structs.field(&["CodeBlob::_code_begin", "CodeBlob::_code_offset"])?;
        Some(BlobFields {
            header: narrow(structs.size("HeapBlock")?)?,
            name: structs.offset(&["CodeBlob::_name"])?,
            size: structs.offset(&["CodeBlob::_size"])?,
            method: structs.offset(&["nmethod::_method", "CompiledMethod::_method"])?,
            compile_id: u16::try_from(structs.offset(&["nmethod::_compile_id"])?).ok()?,
            frame_size: narrow(structs.offset(&["CodeBlob::_frame_size"])?)?,
            frame_complete: narrow(complete.offset)?,
            frame_complete_bytes: if complete.kind == "int" { 4 } else { 2 },
            code: narrow(code.offset)?,
            code_by_offset: code.kind == "int",
        })
    }

    /// Where the code of a blob begins.
    pub(crate) fn code(&self, memory: &impl Memory, blob: u64) -> Option<u64> {
        let at = blob.checked_add(self.code.into())?;
        match self.code_by_offset {
            false => memory.word(at),
            true => blob.checked_add(u64::try_from(memory.int(at)?).ok()?),
        }
    }
}

impl MethodFields {
    fn of(structs: &Structs) -> Option<Self> {
        Some(MethodFields {
            constant: narrow(structs.offset(&["Method::_constMethod"])?)?,
            code_size: narrow(structs.offset(&["ConstMethod::_code_size"])?)?,
            constant_bytes: narrow(structs.size("ConstMethod")?)?,
            constants: structs.offset(&["ConstMethod::_constants"])?,
            name_index: structs.offset(&["ConstMethod::_name_index"])?,
            pool_holder: structs.offset(&["ConstantPool::_pool_holder"])?,
            pool_size: structs.size("ConstantPool")?,
            class_name: structs.offset(&["Klass::_name"])?,
            symbol_length: structs.offset(&["Symbol::_length"])?,
            symbol_body: structs.offset(&["Symbol::_body", "Symbol::_body[0]"])?,
            source_file: SourceFile::of(structs),
        })
    }
}

impl SourceFile {
    fn of(structs: &Structs) -> Self {
        let of_pool = structs.offset(&["ConstantPool::_source_file_name_index"]);
        let of_class = structs.offset(&["InstanceKlass::_source_file_name_index"]);
        match (of_pool, of_class) {
            (Some(offset), _) => SourceFile::OfPool(offset),
            (_, Some(offset)) => SourceFile::OfClass(offset),
            _ => SourceFile::Unknown,
        }
    }
}

/// How many of the smallest bytes packed integers leave out: 0 ends streams since JDK 20.
fn excluded(structs: &Structs, memory: &impl Memory) -> Option<u32> {
    let version = structs.address("Abstract_VM_Version::_vm_major_version")?;
    Some((memory.int(version)? >= 20).into())
}

impl Scopes {
    fn of(structs: &Structs) -> Option<Self> {
        let offset = |name| structs.offset(&[name]);
        let apart = match offset("nmethod::_immutable_data") {
            None => Apart::Not {
                metadata: offset("nmethod::_metadata_offset")?,
                data: structs.offset(&[
                    "CompiledMethod::_scopes_data_begin",
                    "nmethod::_scopes_data_begin",
                ])?,
                places_end: offset("nmethod::_dependencies_offset")?,
            },
            Some(immutable) => Apart::Yes {
                immutable,
                mutable: offset("CodeBlob::_mutable_data")?,
                relocations: offset("CodeBlob::_relocation_size")?,
                data: offset("nmethod::_scopes_data_offset")?,
            },
        };
        Some(Scopes {
            places: offset("nmethod::_scopes_pcs_offset")?,
            apart,
        })
    }

    /// The tables of a compiled method.
    pub(crate) fn tables(&self, memory: &impl Memory, blob: u64) -> Option<Tables> {
        let word = |at: u64| memory.word(blob.checked_add(at)?);
        let offset = |at: u64| u64::try_from(memory.int(blob.checked_add(at)?)?).ok();
        let places = offset(self.places)?;
        Some(match self.apart {
            Apart::Not {
                metadata,
                data,
                places_end,
            } => Tables {
                places: blob.checked_add(places)?,
                places_end: blob.checked_add(offset(places_end)?)?,
                data: word(data)?,
                metadata: blob.checked_add(offset(metadata)?)?,
            },
            Apart::Yes {
                immutable,
                mutable,
                relocations,
                data,
            } => {
                let immutable = word(immutable)?;
                let data = immutable.checked_add(offset(data)?)?;
                Tables {
                    places: immutable.checked_add(places)?,
                    places_end: data,
                    data,
                    metadata: word(mutable)?.checked_add(offset(relocations)?)?,
                }
            }
        })
    }
}

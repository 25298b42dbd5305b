//! `unwind.h` as a function, and the memory it reads.
use crate::cells::Cells;
use crate::common::oracles::Stack;
use crate::common::process::{Image, Mapping};
use crate::unwind_maps::UnwindMaps;
use dwell_abi::events::{CodeHeap, MAX_MAPPINGS, MAX_USER_FRAMES, ModuleTable, RETURN_BIT};
use dwell_abi::unwind::{Row, StackEnd};
use dwell_elf::step::Registers;
use dwell_elf::table_step::Frame;
use dwell_maps::Memory;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

#[repr(C)]
struct ProcessMaps {
    n: u32,
    python: u32,
    engine: [u32; 6],
    rows: [dwell_abi::events::Mapping; MAX_MAPPINGS as usize],
}

const NO_ROW: dwell_abi::events::Mapping = dwell_abi::events::Mapping {
    start: 0,
    end: 0,
    text_base: 0,
    table: 0,
    heap: 0,
};

type Read = unsafe extern "C" fn(to: *mut u8, n: u32, from: u64) -> libc::c_long;
type Walk = unsafe extern "C" fn(
    read: Read,
    chunks: *const *mut u64,
    n_chunks: u32,
    tables: *const ModuleTable,
    n_tables: u32,
    maps: *mut ProcessMaps,
    regs: *const u64,
    pcs: *mut u64,
    end: *mut u32,
) -> u32;

type CompiledRow =
    unsafe extern "C" fn(read: Read, heap: *const CodeHeap, pc: u64, returned: u64) -> u64;

thread_local! {
    /// Whose memory the walk reads.
    static READ_FROM: Cell<i32> = const { Cell::new(0) };
}

/// As a probe read in the kernel: all or nothing.
unsafe extern "C" fn read_target(to: *mut u8, n: u32, from: u64) -> libc::c_long {
    let local = libc::iovec {
        iov_base: to.cast(),
        iov_len: n as usize,
    };
    let remote = libc::iovec {
        iov_base: from as *mut libc::c_void,
        iov_len: n as usize,
    };
    // SAFETY: the caller gives `n` bytes of memory at `to`; the remote side is only read.
    let read = unsafe { libc::process_vm_readv(READ_FROM.get(), &local, 1, &remote, 1, 0) };
    if read == n as isize { 0 } else { -14 }
}

/// Memory of this process, as the native unwinder reads it.
pub struct Ours;

impl Memory for Ours {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        READ_FROM.set(std::process::id() as i32);
        // SAFETY: `into` has that length.
        unsafe { read_target(into.as_mut_ptr(), into.len() as u32, address) == 0 }
    }
}

/// The kernel side's unwinder and its tables.
pub struct Native {
    walk: Walk,
    row: CompiledRow,
    maps: UnwindMaps,
    cells: Cells,
    tables: Vec<ModuleTable>,
    known: HashMap<*const Image, u32>,
}

impl Native {
    pub fn new() -> Self {
        let library = compile();
        let name = CString::new(library.as_os_str().as_encoded_bytes()).expect("no NUL in a path");
        // SAFETY: the library was just compiled from the shim; it has no constructors. It stays loaded.
        let (walk, row, size) = unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{} cannot be loaded", library.display());
            let walk = libc::dlsym(handle, c"walk_natively".as_ptr());
            let row = libc::dlsym(handle, c"compiled_row".as_ptr());
            let size = libc::dlsym(handle, c"process_maps_size".as_ptr());
            assert!(!walk.is_null() && !row.is_null() && !size.is_null());
            let folder = library.parent().expect("made in a folder of its own");
            let _ = std::fs::remove_dir_all(folder); // loaded is loaded
            // The types are those of the C functions.
            (
                std::mem::transmute::<*mut libc::c_void, Walk>(walk),
                std::mem::transmute::<*mut libc::c_void, CompiledRow>(row),
                std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> u32>(size)(),
            )
        };
        assert_eq!(size as usize, size_of::<ProcessMaps>());
        Native {
            walk,
            row,
            maps: UnwindMaps::default(),
            cells: Cells::default(),
            tables: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// The row of a JVM's code in a heap that lies in our own memory.
    pub fn compiled_row(&self, heap: &CodeHeap, pc: u64, returned: bool) -> Row {
        READ_FROM.set(std::process::id() as i32);
        // SAFETY: `heap` outlives the call; what it leads to is read as the kernel reads a process.
        Row::from_bits(unsafe { (self.row)(read_target, heap, pc, returned.into()) })
    }

    fn table(&mut self, image: &'static Image) -> u32 {
        if let Some(&known) = self.known.get(&ptr::from_ref(image)) {
            return known;
        }
        let place = self
            .cells
            .add(&self.maps, image.info.table())
            .expect("room for the rows");
        let number = self.tables.len() as u32;
        self.tables.push(place);
        self.known.insert(image, number);
        number
    }

    /// The stack of a stopped thread of this process.
    pub fn walk(&mut self, mappings: &[Mapping], registers: &Registers, pid: i32) -> Stack {
        let mut sorted = mappings.to_vec();
        sorted.sort_by_key(|m| m.start);
        assert!(sorted.len() <= MAX_MAPPINGS as usize);
        let mut maps = Box::new(ProcessMaps {
            n: sorted.len() as u32,
            python: 0,
            engine: [0; 6],
            rows: [NO_ROW; MAX_MAPPINGS as usize],
        });
        for (row, m) in maps.rows.iter_mut().zip(&sorted) {
            row.start = m.start;
            row.end = m.end;
            row.text_base = m.bias.wrapping_add(m.image.info.table().text_start);
            row.table = self.table(m.image);
        }
        let regs: Vec<u64> = (0..17)
            .map(|r| registers.get(r).expect("all registers are known"))
            .collect();
        let mut pcs = vec![0; MAX_USER_FRAMES as usize];
        let mut end = 0;
        READ_FROM.set(pid);
        let chunks = self.maps.chunks();
        // SAFETY: every pointer is to memory that outlives the call, of the length that is given with
        // it or, for `regs`, `pcs` and `end`, that the function is documented to use.
        let n = unsafe {
            (self.walk)(
                read_target,
                chunks.as_ptr(),
                chunks.len() as u32,
                self.tables.as_ptr(),
                self.tables.len() as u32,
                &mut *maps,
                regs.as_ptr(),
                pcs.as_mut_ptr(),
                &mut end,
            )
        };
        let frame = |&pc: &u64| Frame {
            pc: pc & !(1 << RETURN_BIT),
            is_return_address: pc >> RETURN_BIT == 1,
        };
        Stack {
            frames: pcs[..n as usize].iter().map(frame).collect(),
            end: StackEnd::from_u8(end as u8).expect("an end"),
        }
    }
}

/// Compiles the shim with the header the eBPF programs are compiled with.
fn compile() -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("native-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("abi.h"), dwell_abi::c_header()).expect("write abi.h");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = folder.join("unwind.so");
    let mut command = Command::new("cc");
    command
        .args(["-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unknown-pragmas", "-Wno-unused-function"])
        .arg(format!("-I{}", folder.display()))
        .arg(format!("-I{}", manifest.join("src/bpf").display()))
        .arg(manifest.join("tests/native/shim.c"))
        .arg("-o")
        .arg(&library);
    assert!(command.status().expect("start cc").success(), "{command:?}");
    library
}

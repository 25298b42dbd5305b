//! Libraries that are loaded later (`dlopen`) and need one that was merged must get the merged one.
//!
//! The loader takes a library for loaded when one of that name is. So before each `dlopen` of the merged
//! file, code of ours sees to it that there is one for every merged library: an empty library of that
//! name, which needs the merged file, so that symbols asked of it are found there. It is made in memory
//! when none is there yet.
use super::Merge;
use super::headers::Segment;
use super::image::{R, W};
use crate::PAGE;
use crate::module::Relocation;
use crate::values::{Value, Values};
use object::elf;

/// Called in place of `dlopen`; ends in it, so that it sees its own caller. What the table behind it holds:
/// (bytes of the library, bytes of its name, the name with its zero, the library), the last 0.
const CODE: [u8; 254] = [
    0x48, 0x85, 0xff, // test rdi,rdi
    0x0f, 0x84, 0xee, 0x00, 0x00, 0x00, // je last
    0x57, // push rdi
    0x56, // push rsi
    0x53, // push rbx
    0x55, // push rbp
    0x41, 0x54, // push r12
    0x41, 0x55, // push r13
    0x41, 0x56, // push r14
    0x48, 0x81, 0xec, 0x50, 0x04, 0x00,
    0x00, // sub rsp,0x450 ; for the path, whose end is written first
    0x41, 0xbe, 0x01, 0x00, 0x00, 0x00, // mov r14d,0x1
    0x48, 0x8d, 0x1d, 0xd7, 0x00, 0x00, 0x00, // lea rbx,[rip+0xd7] ; the table
    0x8b, 0x2b, // next: mov ebp,[rbx] ; bytes of the library
    0x85, 0xed, // test ebp,ebp
    0x0f, 0x84, 0xb5, 0x00, 0x00, 0x00, // je done
    0x41, 0xff, 0xc6, // inc r14d
    0x44, 0x8b, 0x63, 0x04, // mov r12d,[rbx+0x4] ; bytes of its name
    0x48, 0x8d, 0x7b, 0x08, // lea rdi,[rbx+0x8]
    0xbe, 0x05, 0x00, 0x00, 0x00, // mov esi,0x5 ; RTLD_LAZY | RTLD_NOLOAD
    0xff, 0x15, 0x00, 0x00, 0x00, 0x00, // call [rip+dlopen] ; dlopen
    0x48, 0x85, 0xc0, // test rax,rax
    0x0f, 0x85, 0x89, 0x00, 0x00, 0x00, // jne skip
    0x48, 0x8d, 0x7b, 0x08, // lea rdi,[rbx+0x8]
    0xbe, 0x01, 0x00, 0x00, 0x00, // mov esi,0x1 ; MFD_CLOEXEC
    0xb8, 0x3f, 0x01, 0x00, 0x00, // mov eax,0x13f ; memfd_create
    0x0f, 0x05, // syscall
    0x85, 0xc0, // test eax,eax
    0x78, 0x75, // js skip
    0x41, 0x89, 0xc5, // mov r13d,eax ; the descriptor
    0x89, 0xc7, // mov edi,eax
    0x4a, 0x8d, 0x74, 0x23, 0x08, // lea rsi,[rbx+r12*1+0x8]
    0x89, 0xea, // mov edx,ebp
    0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax,0x1 ; write
    0x0f, 0x05, // syscall
    0x44, 0x89, 0xe8, // mov eax,r13d
    0x48, 0x8d, 0xbc, 0x24, 0x4f, 0x04, 0x00, 0x00, // lea rdi,[rsp+0x44f]
    0xc6, 0x07, 0x00, // mov byte [rdi],0x0
    0xb9, 0x0a, 0x00, 0x00, 0x00, // mov ecx,0xa
    0x31, 0xd2, // digit: xor edx,edx
    0xf7, 0xf1, // div ecx
    0x80, 0xc2, 0x30, // add dl,0x30
    0x48, 0xff, 0xcf, // dec rdi
    0x88, 0x17, // mov byte [rdi],dl
    0x85, 0xc0, // test eax,eax
    0x75, 0xf0, // jne digit
    0x44, 0x89, 0xf1, // mov ecx,r14d
    0x48, 0xff, 0xcf, // slash: dec rdi
    0xc6, 0x07,
    0x2f, // mov byte [rdi],0x2f ; "/": as many as the library's number, so that no two have one path
    0xff, 0xc9, // dec ecx
    0x75, 0xf6, // jne slash
    0x48, 0xb8, 0x2f, 0x70, 0x72, 0x6f, 0x63, 0x2f, 0x73,
    0x65, // movabs rax,0x65732f636f72702f ; "/proc/se"
    0x48, 0x89, 0x47, 0xf3, // mov [rdi-0xd],rax
    0xc7, 0x47, 0xfb, 0x6c, 0x66, 0x2f, 0x66, // mov [rdi-0x5],0x662f666c ; "lf/f"
    0xc6, 0x47, 0xff, 0x64, // mov byte [rdi-0x1],0x64 ; "d"
    0x48, 0x83, 0xef, 0x0d, // sub rdi,0xd
    0xbe, 0x01, 0x00, 0x00, 0x00, // mov esi,0x1 ; RTLD_LAZY
    0xff, 0x15, 0x00, 0x00, 0x00, 0x00, // call [rip+dlopen] ; dlopen
    0x44, 0x89, 0xef, // mov edi,r13d
    0xb8, 0x03, 0x00, 0x00, 0x00, // mov eax,0x3 ; close
    0x0f, 0x05, // syscall
    0x4a, 0x8d, 0x5c, 0x23, 0x08, // skip: lea rbx,[rbx+r12*1+0x8]
    0x48, 0x01, 0xeb, // add rbx,rbp
    0xe9, 0x41, 0xff, 0xff, 0xff, // jmp next
    0x48, 0x81, 0xc4, 0x50, 0x04, 0x00, 0x00, // done: add rsp,0x450
    0x41, 0x5e, // pop r14
    0x41, 0x5d, // pop r13
    0x41, 0x5c, // pop r12
    0x5d, // pop rbp
    0x5b, // pop rbx
    0x5e, // pop rsi
    0x5f, // pop rdi
    0xff, 0x25, 0x00, 0x00, 0x00, 0x00, // last: jmp [rip+dlopen] ; dlopen
    0xcc, // int3
];
/// Where the code reads the place that holds `dlopen`: offsets of the distances in its instructions.
const READS: [usize; 3] = [0x43, 0xcb, 0xf9];

const DLOPEN: &[u8] = b"dlopen";

/// Leads all uses of `dlopen` to the image address `code`, which reads it from `place`. Tells whether there
/// are any. A merged C library's own uses stay: name services and character sets need nothing but it.
pub(crate) fn divert(
    merge: &Merge<'_, '_>,
    values: &mut Values,
    (code, place): (u64, u64),
) -> bool {
    let mut real = None;
    for at in uses(merge, values) {
        let Some(value) = values.places.get_mut(&at) else {
            continue;
        };
        let found = match *value {
            Value::Import { import, .. } => Value::Import {
                kind: elf::R_X86_64_GLOB_DAT.0,
                import,
                addend: 0,
            },
            Value::Image(dlopen) => Value::Image(dlopen),
            _ => continue,
        };
        // Two versions of an import are the same function; of two functions the first one counts.
        let imported = matches!(found, Value::Import { .. });
        if *real.get_or_insert(found) == found || imported {
            *value = Value::Image(code);
        }
    }
    values.places.extend(real.map(|real| (place, real)));
    real.is_some()
}

/// Places that hold the address of `dlopen`, image addresses.
fn uses(merge: &Merge<'_, '_>, values: &Values) -> Vec<u64> {
    let is_import = |v: &Value| match v {
        Value::Import { import, .. } => values.imports[*import].name == DLOPEN,
        _ => false,
    };
    let imports = values.places.iter().filter(|(_, v)| is_import(v));
    let mut uses: Vec<u64> = imports.map(|(&at, _)| at).collect();
    let modules = merge.layout.merged();
    for (index, base) in modules {
        let module = &merge.closure.modules[index];
        // Relocations that cannot be read were refused before.
        let all = merge.closure.relocations(index).unwrap_or_default();
        let named = |r: &&Relocation| {
            let symbol = module.symbols.get(r.symbol);
            symbol.is_some_and(|s| s.is_undefined() && s.name == DLOPEN)
        };
        uses.extend(
            all.iter()
                .filter(named)
                .map(|r| r.stated.wrapping_add(base)),
        );
    }
    uses.sort_unstable();
    uses.dedup();
    uses
}

/// The code for the image address `at`, and what it needs.
pub(crate) fn code(merge: &Merge<'_, '_>, at: u64, place: u64) -> Vec<u8> {
    let mut bytes = CODE.to_vec();
    for read in READS {
        let next = at + read as u64 + 4;
        let distance = place.wrapping_sub(next) as u32;
        bytes[read..read + 4].copy_from_slice(&distance.to_le_bytes());
    }
    for (index, _) in merge.layout.merged().skip(1) {
        let name = &merge.closure.modules[index].name;
        let library = library(name, &merge.soname);
        bytes.extend((library.len() as u32).to_le_bytes());
        bytes.extend((name.len() as u32 + 1).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.extend(library);
    }
    bytes.extend([0; 4]);
    bytes
}

/// An empty library of that name that needs `needed`.
fn library(name: &str, needed: &str) -> Vec<u8> {
    const HEADERS: u64 = 64 + 3 * Segment::BYTES as u64;
    let mut strings = vec![0];
    let mut string = |text: &str| {
        let at = strings.len() as u64;
        strings.extend(text.as_bytes());
        strings.push(0);
        at
    };
    let (name, needed) = (string(name), string(needed));
    let dynamic_len = 7 * 16;
    let symbols = HEADERS + dynamic_len;
    let strings_at = symbols + 24;
    let dynamic = [
        (elf::DT_SONAME.0, name),
        (elf::DT_NEEDED.0, needed),
        (elf::DT_STRTAB.0, strings_at),
        (elf::DT_STRSZ.0, strings.len() as u64),
        (elf::DT_SYMTAB.0, symbols),
        (elf::DT_SYMENT.0, 24),
        (elf::DT_NULL.0, 0),
    ];
    let len = strings_at + strings.len() as u64;
    let mut bytes = header();
    let segments = [
        (elf::PT_LOAD.0, 0, len, PAGE),
        (elf::PT_DYNAMIC.0, HEADERS, dynamic_len, 8),
        // Without this one the loader would make the stack executable.
        (elf::PT_GNU_STACK.0, 0, 0, 16),
    ];
    for (kind, at, len, align) in segments {
        bytes.extend(Segment::table(kind, R | W, at, len, align).bytes(0));
    }
    for (tag, value) in dynamic {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 24]);
    bytes.extend(strings);
    bytes
}

/// The header of a library without sections and with three program headers.
fn header() -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend(elf::ET_DYN.0.to_le_bytes());
    bytes.extend(elf::EM_X86_64.0.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    for word in [0u64, 64, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    for half in [64, Segment::BYTES as u16, 3, 64, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Module;

    /// The places that the code reads are where its instructions have theirs: each is preceded by the
    /// opcode of an indirect call or jump.
    #[test]
    fn reads_are_those_of_the_calls() {
        for read in READS {
            assert!(
                matches!(CODE[read - 2..read], [0xff, 0x15 | 0x25]),
                "{read:#x}"
            );
        }
        // lea rbx, [rip + distance]: the table is behind the code.
        let distance = u32::from_le_bytes(CODE[0x23..0x27].try_into().expect("4 bytes"));
        assert_eq!(0x27 + distance as usize, CODE.len());
    }

    #[test]
    fn the_empty_library_says_what_it_should() {
        let bytes = library("libz.so.1", "prog.boosted");
        let module = Module::parse("memory", &bytes).expect("a library");
        assert_eq!(module.name, "libz.so.1");
        assert_eq!(module.dynamic.needed, ["prog.boosted"]);
        assert!(!module.exec_stack && !module.elf.is_executable());
    }
}

//! Where a module's thread-local variables are, seen from a thread's pointer.
use dwell_script::SymbolPlace;
use object::elf::{FileHeader64, PT_TLS, R_X86_64_DTPMOD64, R_X86_64_TPOFF64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol, RelocationFlags, RelocationTarget};

use crate::process::{Module, Process};

/// The place of a variable that lies so many bytes from the start of the module's thread-local block.
///
/// The program's own block ends at the thread pointer. That of a library lies where the loader put it; what its
/// relocations left in memory tells that: a distance from the thread pointer, or the module's number in the threads'
/// tables.
pub(crate) fn place(process: &Process, module: &Module, offset: u64) -> Option<SymbolPlace> {
    let data = module.files()?.data.file();
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(data).ok()?;
    if module.is_program {
        let start = block_start(file.elf_header(), data)?;
        return Some(SymbolPlace::ThreadPointer(offset as i64 - start as i64));
    }
    let bias = module.bias()?;
    for (at, relocation) in file.dynamic_relocations()? {
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let word = || process.word(bias.wrapping_add(at));
        if r_type == R_X86_64_DTPMOD64 {
            let module = word()?;
            return Some(SymbolPlace::ThreadTable { module, offset });
        }
        if r_type == R_X86_64_TPOFF64 {
            let of_symbol = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let symbol = file.dynamic_symbol_table()?;
                    let symbol = object::ObjectSymbolTable::symbol_by_index(&symbol, index).ok()?;
                    if symbol.is_undefined() {
                        continue;
                    }
                    symbol.address()
                }
                _ => 0,
            };
            let stated = of_symbol.wrapping_add(relocation.addend() as u64);
            let block = word()?.wrapping_sub(stated);
            return Some(SymbolPlace::ThreadPointer(block.wrapping_add(offset) as i64));
        }
    }
    None
}

/// Bytes from the start of the program's block to the thread pointer.
fn block_start(header: &FileHeader64<LittleEndian>, data: &[u8]) -> Option<u64> {
    let endian = LittleEndian;
    let headers = header.program_headers(endian, data).ok()?;
    let block = headers.iter().find(|h| h.p_type(endian) == PT_TLS)?;
    let alignment = block.p_align(endian).max(1);
    let odd = block.p_vaddr(endian) & (alignment - 1);
    let size = block.p_memsz(endian);
    // What glibc computes for the first module.
    Some(size.saturating_sub(odd).next_multiple_of(alignment) + odd)
}

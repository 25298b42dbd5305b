//! Facts in an ELF file: unwind rows, symbols, notes, line tables

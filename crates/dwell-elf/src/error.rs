//! What can be wrong with an ELF file.

/// Why an ELF file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The bytes do not begin with an ELF header.
    #[error("not an ELF file: {0}; only ELF executables and shared libraries can be read")]
    NotElf(&'static str),
    /// An ELF file of another class, byte order or processor.
    #[error("unsupported ELF file ({0}); only little-endian 64-bit x86-64 files can be read")]
    UnsupportedArch(String),
    /// An object file, a core file or something else that is never mapped for execution.
    #[error("unsupported ELF type ({0}); only executables and shared libraries can be read")]
    UnsupportedType(String),
    /// The program headers lie outside of the file or have a wrong size.
    #[error("the ELF program headers are damaged: {0}; the file may be truncated, reinstall it")]
    BadProgramHeaders(&'static str),
    /// A section lies outside of the file or cannot be decompressed.
    #[error("ELF section {name} cannot be read: {why}; the file may be truncated, reinstall it")]
    BadSection {
        /// Name of the section.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The section is larger than [`crate::Section::MAX_BYTES`] when decompressed.
    #[error(
        "ELF section {name} claims {bytes} bytes when decompressed, more than any real one; it is not read"
    )]
    SectionTooLarge {
        /// Name of the section.
        name: String,
        /// Its claimed size in bytes.
        bytes: u64,
    },
    /// The executable segments span more than a row's 32-bit distance can say.
    #[error(
        "the executable segments span {0} bytes, more than the 4 GiB that unwind rows can address; \
         stacks in this file cannot be unwound"
    )]
    TextTooWide(u64),
    /// More unwind rows than [`crate::unwind::MAX_ROWS`].
    #[error(
        "the call frame information needs more than {0} rows, more than any real program; \
         stacks in this file cannot be unwound"
    )]
    TooManyRows(usize),
}

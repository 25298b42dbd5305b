//! What a script may name beyond itself: asked lazily, so that a target's debug information is only read for what
//! is named.

use crate::typed::ProbePattern;
use crate::types::{TypeId, Types};

/// The keyword before a type's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keyword {
    /// `struct`, and C++'s classes.
    Struct,
    /// `union`.
    Union,
    /// `enum`.
    Enum,
}

impl Keyword {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Keyword::Struct => "struct",
            Keyword::Union => "union",
            Keyword::Enum => "enum",
        }
    }
}

/// A variable or function of the target or the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Where it is.
    pub place: SymbolPlace,
    /// Its type, where debug information tells.
    pub ty: Option<TypeId>,
}

/// Where a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolPlace {
    /// At this actual address.
    Address(u64),
    /// So many bytes from the thread pointer.
    ThreadPointer(i64),
    /// In the block that each thread has for a library, where the thread's table says: the table's address is the
    /// word after the thread pointer's, and it has 16 bytes for each library.
    ThreadTable {
        /// The library's number.
        module: u64,
        /// Bytes from the start of the block.
        offset: u64,
    },
}

/// One of `args[]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its type.
    pub ty: TypeId,
    /// How its value is had.
    pub passed: Passed,
}

/// How the value of an argument is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// It is `argN`, cut to its type.
    Word(u8),
    /// It is not to be had, since it ... (the end of the sentence).
    Otherwise(&'static str),
}

/// What is known of the `args[]` of a probe description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arguments {
    /// All of them.
    Known(Vec<Argument>),
    /// The description matches probes whose arguments differ.
    Ambiguous,
    /// There is no debug information.
    Unknown,
}

/// What a script may name. The defaults know nothing, and that every probe exists.
pub trait World {
    /// A type by its name, or by its tag if there is a keyword; of one module where that is said.
    fn type_named(
        &self,
        _module: Option<&str>,
        _keyword: Option<Keyword>,
        _name: &str,
        _types: &mut Types,
    ) -> Option<TypeId> {
        None
    }

    /// `` `name `` or `` module`name ``.
    fn symbol(&self, _module: Option<&str>, _name: &str, _types: &mut Types) -> Option<Symbol> {
        None
    }

    /// An enumerator of the target or the kernel.
    fn constant(&self, _name: &str, _types: &mut Types) -> Option<(i64, TypeId)> {
        None
    }

    /// The types of a probe's `args[]`.
    fn arguments(&self, _probe: &ProbePattern, _types: &mut Types) -> Arguments {
        Arguments::Unknown
    }

    /// Whether a description matches any probe.
    fn probe_exists(&self, _probe: &ProbePattern) -> bool {
        true
    }

    /// Names that may have been meant by a wrong symbol, for the suggestion.
    fn symbols_like(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A world that knows nothing: for scripts that only use what D brings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bare;

impl World for Bare {}

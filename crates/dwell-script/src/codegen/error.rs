//! Why no program can be made of a checked script.
use crate::span::Span;

/// Why no program can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// A jump of the program is too far for its instruction.
    #[error("the clauses of one probe are too long together: divide them among several scripts")]
    TooLong,
    /// More than a program may hold at once.
    #[error("an expression needs too much memory at once: assign parts of it to this-> variables")]
    TooDeep,
    /// Not made yet, or not possible where the probe is.
    #[error("{what} cannot be used here")]
    Unsupported {
        /// In D's words.
        what: Box<str>,
        /// Where it stands.
        span: Span,
    },
}

impl CodeError {
    pub(super) fn unsupported(what: impl Into<Box<str>>, span: Span) -> Self {
        CodeError::Unsupported {
            what: what.into(),
            span,
        }
    }

    /// The place in the source, where one is to blame.
    pub fn span(&self) -> Option<Span> {
        match self {
            CodeError::Unsupported { span, .. } => Some(*span),
            _ => None,
        }
    }
}

//! D, as users of dtrace(1) write it: from source to a checked form, to programs of the form in
//! `dwell-abi`, and back from records and aggregations to the text that dtrace prints.
//!
//! Knows nothing of kernels and processes: what a script may name is asked of its [`World`].
//!
//! ```
//! use dwell_script::{Bare, Input, compile};
//!
//! let input = Input {
//!     source: "syscall::read:return /arg0 > 0/ { @[execname] = quantize(arg0); }",
//!     ..Input::default()
//! };
//! let (script, _options) = compile(&input, &Bare).expect("the script is right");
//! assert_eq!(
//!     script.to_string(),
//!     "syscall::read:return /(> arg0:long 0:long)/ { @0[execname] = quantize(arg0:long); }\n"
//! );
//!
//! let input = Input { source: "BEGIN { trace(timestmap); }", ..Input::default() };
//! let error = compile(&input, &Bare).expect_err("there is no such variable");
//! assert_eq!(error.to_string(), "[D_IDENT_UNDEF] line 1: failed to resolve timestmap: Unknown variable name");
//! assert_eq!(error.suggestion.as_deref(), Some("timestamp"));
//! ```
#![forbid(unsafe_code)]

pub mod aggregate;
mod ast;
mod builtins;
mod check;
pub mod codegen;
mod compile;
mod error;
mod extent;
mod facts;
mod lex;
mod library;
mod lines;
mod macros;
mod nearest;
pub mod octets;
pub mod option_values;
mod options;
pub mod output;
mod parse;
pub mod provider;
pub mod schema;
mod show;
pub mod span;
mod tag;
pub mod typed;
pub mod types;
mod world;

pub use compile::{Compiled, Input, compile, compile_all};
pub use error::Error;
pub use macros::Macros;
pub use nearest::nearest;
pub use options::{OptionError, Options};
pub use parse::Specifier;
pub use tag::Tag;
pub use world::{Argument, Arguments, Bare, Keyword, Passed, Symbol, SymbolPlace, World};

//! What D brings: its variables, functions, types and constants, as tables.

pub(crate) mod constants;
pub(crate) mod functions;
pub(crate) mod types;
pub(crate) mod variables;

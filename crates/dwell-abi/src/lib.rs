//! What both sides of the kernel boundary agree on.
//!
//! Every definition here is written once, in Rust, and [`c_header`] prints the same thing in C for
//! the eBPF programs, so the two cannot drift apart. Nothing here knows of files or the kernel.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

#[macro_use]
mod c;
pub mod calls;
pub mod events;
pub mod program;
pub mod unwind;

pub use c::CEmit;

/// The C header with every definition of this crate.
pub fn c_header() -> alloc::string::String {
    let mut out =
        alloc::string::String::from("/* Generated from dwell-abi; do not edit. */\n#pragma once\n");
    unwind::emit_c(&mut out);
    events::emit_c(&mut out);
    calls::emit_c(&mut out);
    out
}

//! Stacks and single addresses.

use std::io::Write;

use super::c_format::{Shape, string};
use super::data::words;
use super::names::{Names, user_frame};
use super::options::Options;

/// How the frames of a stack are laid out.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Spaces before each frame.
    pub indent: usize,
    /// How a frame's text is filled up.
    pub frame: Shape,
}

impl Layout {
    /// That of `stack()` and `ustack()` without a format.
    pub fn of(options: &Options) -> Layout {
        Layout {
            indent: options.stack_indent,
            frame: Shape::default(),
        }
    }
}

/// A kernel stack: addresses up to a zero.
pub fn kernel(out: &mut Vec<u8>, bytes: &[u8], layout: Layout, names: &mut dyn Names) {
    out.push(b'\n');
    for address in words(bytes).take_while(|address| *address != 0) {
        let name = names.kernel(address).exact(address);
        frame(out, &name, layout);
    }
}

/// A stack of a process: its id, then frames up to a zero; `strings` bytes at the end are for names of frames.
pub fn user(
    out: &mut Vec<u8>,
    bytes: &[u8],
    strings: u32,
    layout: Layout,
    names: &mut dyn Names,
    options: &Options,
) {
    let end = bytes.len().saturating_sub(strings as usize);
    let mut words = words(&bytes[..end]);
    let Some(pid) = words.next() else {
        return;
    };
    out.push(b'\n');
    for address in words.take_while(|address| *address != 0) {
        let name = user_frame(names, options, (pid as u32, address));
        frame(out, &name, layout);
    }
}

/// One line of a stack.
fn frame(out: &mut Vec<u8>, name: &str, layout: Layout) {
    // Writing to memory does not fail.
    let _ = write!(out, "{:1$}", "", layout.indent);
    string(out, name.as_bytes(), &layout.frame);
    out.push(b'\n');
}

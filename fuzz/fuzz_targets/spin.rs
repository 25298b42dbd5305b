//! Any bytes as the code of a function: every place is judged.
#![no_main]

use dwell_spin::{Callee, Callees, Function, Target, judge};
use libfuzzer_sys::fuzz_target;
use std::rc::Rc;

const START: u64 = 0x1000;

/// Bytes that are looked at: here every loop is executed anew for each place in it.
const MAX_BYTES: usize = 256;

/// Every call leads to the function itself, or to one that waits.
struct Itself(Rc<Function>);

impl Callees for Itself {
    fn callee(&self, target: Target) -> Callee {
        match target {
            Target::Address(_) => Callee::Code(Rc::clone(&self.0)),
            Target::Slot(_) => Callee::Waits,
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let data = &data[..data.len().min(MAX_BYTES)];
    let Some(function) = Function::decode(START, data).map(Rc::new) else {
        return;
    };
    let itself = Itself(Rc::clone(&function));
    for address in START..START + data.len() as u64 {
        if let Ok(found) = judge(&function, address, &itself) {
            assert!((START..START + data.len() as u64).contains(&found.header));
        }
    }
});

//! Any text as a D script, alone and as the body of a clause: it is compiled, and its form and its error are written.
#![no_main]

use dwell_script::{Bare, Input, Macros, compile};
use libfuzzer_sys::fuzz_target;

fn check(source: &str) {
    let input = Input {
        source,
        macros: Macros {
            arguments: vec!["x.d", "7", "a b"],
            variables: vec![("target", 1), ("pid", 2)],
        },
        ..Input::default()
    };
    match compile(&input, &Bare) {
        Ok((script, _)) => drop(script.to_string()),
        Err(error) => {
            assert!(error.column > 0 && error.width > 0);
            drop(error.to_string() + &error.excerpt());
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    check(&text);
    check(&format!("BEGIN {{ {text} }}"));
});

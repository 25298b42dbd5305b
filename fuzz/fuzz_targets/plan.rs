//! Any bytes as a file whose functions are to be patched: every function at its entry, its returns and
//! in the middle, and the stubs of what is planned. Good seeds are small real programs.
#![no_main]

use dwell_patch::plan::{HookSite, Image, Place, Request, assemble, longest_stub, plan};
use dwell_patch::Hook;
use libfuzzer_sys::fuzz_target;

/// A file may name one function thousands of times.
const MOST: usize = 64;

fuzz_target!(|data: &[u8]| {
    let Ok(image) = Image::parse(data) else {
        return;
    };
    let functions = image.symbols().take(MOST);
    let requests: Vec<Request> = functions
        .flat_map(|function| {
            [Place::Entry, Place::Returns, Place::Rets, Place::Offset(4)].map(|place| Request {
                function: function.address,
                place,
            })
        })
        .collect();
    let plan = plan(&image, &requests);
    for pair in plan.windows.windows(2) {
        assert!(pair[0].inside().end <= pair[1].start());
    }
    for window in &plan.windows {
        let hook = |number: usize| match window.sites[number].place {
            Place::Entry => Hook::Inline(dwell_agent::GLIBC_READ_OFFSET),
            _ => Hook::Count,
        };
        let site = |number| HookSite {
            hook: hook(number),
            number: 1,
            link: 0x10_0000,
            counters: 0x11_0000,
            stride: 64,
            stripe_bits: 4,
            agent: 0x12_0000,
            programs: 0x13_0000,
        };
        if let Ok(stub) = assemble(window, 0, 0x20_0000, site) {
            assert!(stub.bytes.len() <= longest_stub(window, hook));
        }
    }
});

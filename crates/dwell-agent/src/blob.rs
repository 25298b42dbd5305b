//! Root of the agent as it is mapped into a target; compiled by `build.rs`, not by cargo.
#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn)]
#[allow(dead_code)] // the other side of the boundary uses the rest
mod layout;

mod count;
mod locks;
#[allow(dead_code)] // as above
mod script;
mod system;

/// Nothing here panics: there is no check that could fail. Stopping a thread in place would be the
/// least harm.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

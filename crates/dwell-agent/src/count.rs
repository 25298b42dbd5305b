//! The plainest handler: counts how often a site is passed.
use crate::layout::{Link, Registers, stripe_of};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Adds one to a site's counter while the owner lives.
///
/// The counters are striped by stack address, so that threads seldom share a cache line, and added to
/// by a locked instruction, so that the count is exact whoever shares one: threads, signal handlers,
/// children of vfork.
///
/// # Safety
/// `link` must be that of a mapped arena whose counters have a place for `site`; `_registers` is what
/// the stub saved.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_count(
    link: *const Link,
    site: u64,
    _registers: *mut Registers,
) {
    let marker = 0u8;
    // SAFETY: by contract the link and what it points to are mapped; both words are only ever used
    // atomically.
    unsafe {
        let link = &*link;
        if !owner_lives(link.owner) {
            return;
        }
        let stripe = stripe_of(&raw const marker as u64, link.stripe_bits);
        let counter = (link.counters + stripe * link.stride + site * 8) as *const AtomicU64;
        (*counter).fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether the process that attached still runs: the word is a robust futex, from which the kernel
/// takes the owner's thread number when it ends, however it ends.
///
/// # Safety
/// `owner` must be 0 or the address of a mapped word.
pub(crate) unsafe fn owner_lives(owner: u64) -> bool {
    if owner == 0 {
        return true;
    }
    // SAFETY: mapped by contract, and an aligned word.
    let word = unsafe { (*(owner as *const AtomicU32)).load(Ordering::Relaxed) };
    word & Link::OWNER_TID_MASK != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_with(owner: u32) -> u64 {
        let counters = [const { AtomicU64::new(0) }; 16];
        let owner = AtomicU32::new(owner);
        let link = Link {
            counters: counters.as_ptr() as u64,
            stride: 32,
            stripe_bits: 2,
            owner: owner.as_ptr() as u64,
            state: 0,
        };
        let registers = core::ptr::null_mut();
        for _ in 0..10 {
            // SAFETY: four stripes of four counters, as the link says; the registers are not read.
            unsafe { dwell_agent_count(&raw const link, 3, registers) };
        }
        counters
            .iter()
            .skip(3)
            .step_by(4)
            .map(|c| c.load(Ordering::Relaxed))
            .sum()
    }

    #[test]
    fn counts_while_the_owner_lives() {
        assert_eq!(count_with(1234), 10);
    }

    #[test]
    fn is_quiet_when_the_owner_has_died_or_let_go() {
        let owner_died = 0x4000_0000;
        assert_eq!(count_with(owner_died), 0);
        assert_eq!(count_with(0), 0);
    }
}

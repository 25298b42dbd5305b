//! What clearing a page costs on this machine: by the instruction that the kernel clears pages with.
use std::arch::asm;
use std::time::Instant;

const PAGE: usize = 4096;
/// More than the largest cache of one processor's share: pages that were cleared so long ago are in none.
const UNCACHED_BYTES: usize = 64 << 20;
const ROUNDS: usize = 5;

/// Clearing a page of 4 KiB, ns.
pub struct ClearNs {
    /// One that is in a cache.
    pub cached: f64,
    /// One that is in none.
    pub uncached: f64,
}

/// Measures it, in some 50 ms. The least of some rounds: what comes in between only adds.
pub fn clear_ns() -> ClearNs {
    let mut pages = vec![1u8; UNCACHED_BYTES];
    let mut least = ClearNs {
        cached: f64::MAX,
        uncached: f64::MAX,
    };
    for _ in 0..ROUNDS {
        least.uncached = least
            .uncached
            .min(ns_per_page(pages.as_chunks_mut::<PAGE>().0));
        let page = &mut pages[..PAGE];
        const TIMES: usize = 2000;
        let begin = Instant::now();
        for _ in 0..TIMES {
            clear(page);
        }
        least.cached = least
            .cached
            .min(begin.elapsed().as_nanos() as f64 / TIMES as f64);
    }
    least
}

fn ns_per_page(pages: &mut [[u8; PAGE]]) -> f64 {
    let begin = Instant::now();
    pages.iter_mut().for_each(|page| clear(page));
    begin.elapsed().as_nanos() as f64 / pages.len() as f64
}

/// As the kernel does on processors of the last ten years (clear_page_erms).
fn clear(page: &mut [u8]) {
    // SAFETY: it writes the bytes of `page` and nothing else.
    unsafe {
        asm!("rep stosb", inout("rcx") page.len() => _, inout("rdi") page.as_mut_ptr() => _, in("al") 0u8,
            options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clearing_costs_more_out_of_the_cache_and_clears() {
        let mut page = vec![7u8; PAGE];
        clear(&mut page);
        assert!(page.iter().all(|b| *b == 0));
        let ns = clear_ns();
        assert!(
            ns.cached > 1.0 && ns.cached < ns.uncached * 1.5,
            "{} {}",
            ns.cached,
            ns.uncached
        );
    }
}

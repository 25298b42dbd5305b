//! Random histories of one thread, and stacks taken from them by the documented rule.
use crate::sampling::weight_ns;

/// A small generator of random numbers (SplitMix64), the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x6a09_e667_f3bc_c909)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `end`, 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with this mean, at least 1.
    pub fn exponential(&mut self, mean: f64) -> u64 {
        (-mean * (1.0 - self.unit()).ln()).ceil().max(1.0) as u64
    }
}

/// A stay of a thread somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Where: any number the test likes.
    pub place: usize,
    /// How long, ns.
    pub ns: u64,
}

/// Takes stacks from a history by the rule of [`crate::sampling`]: returns, for each stay that was
/// taken, its position and its weight in ns.
pub fn renewal_samples(stays: &[Stay], period_ns: u64, rng: &mut Rng) -> Vec<(usize, u64)> {
    let mut samples = Vec::new();
    // The first cut from the steady state: uniform within a gap chosen by its length.
    let mut cut = steady_first_cut(period_ns, rng);
    let mut now = 0u64;
    for (position, stay) in stays.iter().enumerate() {
        let end = now + stay.ns;
        let mut taken = false;
        while cut < end {
            taken = true;
            cut += period_ns / 2 + rng.below(period_ns);
        }
        if taken {
            samples.push((position, weight_ns(stay.ns, period_ns)));
        }
        now = end;
    }
    samples
}

fn steady_first_cut(period_ns: u64, rng: &mut Rng) -> u64 {
    loop {
        // A gap is met in proportion to its length.
        let gap = period_ns / 2 + rng.below(period_ns);
        if rng.below(period_ns * 3 / 2) < gap {
            return rng.below(gap);
        }
    }
}

//! What is known without a simulation: a closed queue of `n` threads that each run for `w` and hold one
//! lock for `h`.

/// The most units per ns that `threads` can do: `min(n / (w + h), 1 / h)`.
pub fn most_throughput(threads: f64, think_ns: f64, hold_ns: f64) -> f64 {
    (threads / (think_ns + hold_ns)).min(1.0 / hold_ns)
}

/// How many threads keep the lock taken all the time, if nobody ever waited: `1 + w / h`. More only wait.
pub fn useful_threads(think_ns: f64, hold_ns: f64) -> f64 {
    1.0 + think_ns / hold_ns
}

/// Units per acquisition from which on these threads no longer saturate the lock, while the hold stays
/// as it is: the least `b` with `1 + b w / h ≥ n`.
pub fn batch_without_saturation(threads: f64, think_ns: f64, hold_ns: f64) -> u32 {
    ((threads - 1.0) * hold_ns / think_ns).ceil().max(1.0) as u32
}

/// Throughput per ns of `M/M/1//N` (machines that fail and one repairman): `n` threads that think and
/// hold for exponential times and wait in a queue.
pub fn machine_repair(threads: u32, think_ns: f64, hold_ns: f64) -> f64 {
    // p(k + 1) = p(k) · (n - k) · h / w, from which p(0) and the share of time that the lock is taken.
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 0..threads {
        term *= f64::from(threads - k) * hold_ns / think_ns;
        sum += term;
    }
    (1.0 - 1.0 / sum) / hold_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_is_never_queued_behind_another() {
        assert!((machine_repair(1, 30.0, 10.0) - 1.0 / 40.0).abs() < 1e-12);
        assert!((machine_repair(100, 30.0, 10.0) - 0.1).abs() < 1e-9);
        assert_eq!(most_throughput(2.0, 30.0, 10.0), 0.05);
        assert_eq!(most_throughput(9.0, 30.0, 10.0), 0.1);
    }
}

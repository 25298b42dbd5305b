//! Times of the processor's time stamp counter as ns of CLOCK_BOOTTIME.

/// Both clocks at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    ticks: u64,
    ns: u64,
}

/// Anchors that are kept; when there are more, every second one goes.
const MOST: usize = 4096;
/// Anchors nearer than this are not kept: the error of one would show.
const DISTANCE_NS: u64 = 500_000_000;

/// Anchors in order of time; between two of them the clocks go straight.
pub(crate) struct Clock {
    anchors: Vec<Anchor>,
    latest: Anchor,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        Clock::from(now())
    }

    fn from(first: Anchor) -> Clock {
        Clock {
            anchors: vec![first],
            latest: first,
        }
    }

    /// Looks at both clocks again; what the counter shows.
    pub fn look(&mut self) -> u64 {
        self.add(now());
        self.latest.ticks
    }

    fn add(&mut self, anchor: Anchor) {
        let last = self.anchors[self.anchors.len() - 1];
        if self.latest.ns.saturating_sub(last.ns) >= DISTANCE_NS {
            self.anchors.push(self.latest);
            if self.anchors.len() > MOST {
                let mut number = 0;
                self.anchors.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
            }
        }
        self.latest = anchor;
    }

    /// The instant at which the counter showed this.
    pub fn ns(&self, ticks: u64) -> u64 {
        let after = self.anchors.partition_point(|a| a.ticks <= ticks);
        let from = self.anchors[after.saturating_sub(1)];
        let to = self.anchors.get(after.max(1)).copied();
        let to = to.unwrap_or(self.latest);
        let span = i128::from(to.ticks) - i128::from(from.ticks);
        if span <= 0 {
            return from.ns;
        }
        let passed = i128::from(ticks) - i128::from(from.ticks);
        let ns = i128::from(to.ns) - i128::from(from.ns);
        let product = passed * ns;
        // Between two anchors it fits, which makes the division several times faster.
        let moved = match (i64::try_from(product), i64::try_from(span)) {
            (Ok(product), Ok(span)) => i128::from(product / span),
            _ => product / span,
        };
        (i128::from(from.ns) + moved).max(0) as u64
    }
}

fn now() -> Anchor {
    const LOOKS: usize = 5;
    let look = |_| {
        let before = ticks();
        let ns = boottime_ns();
        let after = ticks();
        let anchor = Anchor {
            ticks: before + (after - before) / 2,
            ns,
        };
        (after - before, anchor)
    };
    // The one that was not interrupted.
    let best = (0..LOOKS).map(look).min_by_key(|(width, _)| *width);
    best.map_or(Anchor { ticks: 0, ns: 0 }, |(_, anchor)| anchor)
}

fn ticks() -> u64 {
    // SAFETY: reads a register that every processor of ours has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn boottime_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: one timespec to write to; the clock exists since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_straight_between_anchors_and_on_behind_them() {
        let at = |ticks, ns| Anchor { ticks, ns };
        let mut clock = Clock::from(at(1_000, 5_000_000_000));
        clock.add(at(2_000, 6_000_000_000));
        clock.add(at(3_000, 8_000_000_000));
        for (ticks, ns) in [
            (1_000, 5_000_000_000),
            (1_500, 5_500_000_000),
            (2_000, 6_000_000_000),
            (2_500, 7_000_000_000),
            (3_100, 8_200_000_000),
            (900, 4_900_000_000),
        ] {
            assert_eq!(clock.ns(ticks), ns, "{ticks}");
        }
    }

    #[test]
    fn many_anchors_take_little_memory() {
        let mut clock = Clock::from(Anchor { ticks: 0, ns: 0 });
        for second in 1..100_000 {
            clock.add(Anchor {
                ticks: second * 2_000_000_000,
                ns: second * 1_000_000_000,
            });
        }
        assert!(clock.anchors.len() <= MOST);
        for second in [0, 1, 4_711, 99_000, 99_999] {
            assert_eq!(
                clock.ns(second * 2_000_000_000 + 10),
                second * 1_000_000_000 + 5
            );
        }
    }

    #[test]
    fn follows_the_kernel_s_clock() {
        let mut clock = Clock::start();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let before = boottime_ns();
        let ticks = ticks();
        let after = boottime_ns();
        clock.look();
        let ns = clock.ns(ticks);
        let slack = 5_000;
        assert!(
            before - slack <= ns && ns <= after + slack,
            "{before} {ns} {after}"
        );
    }
}

//! Filling the time between fixed moments with others.
use super::Moment;

/// The fixed moments, and between them the loose ones in their order, cut where a fixed one stands. Together they
/// go from `start_ns` to `until_ns` if they are as long as that; what is longer goes on behind it.
pub(super) fn between(
    start_ns: u64,
    until_ns: u64,
    fixed: &[Moment],
    loose: Vec<Moment>,
) -> Vec<Moment> {
    let mut filled = Vec::with_capacity(fixed.len() + loose.len());
    let mut loose = loose.into_iter();
    let mut next = loose.next();
    let mut now_ns = start_ns;
    let mut fill = |now_ns: &mut u64, end_ns: u64, filled: &mut Vec<Moment>| {
        while let Some(moment) = next.as_mut().filter(|_| *now_ns < end_ns) {
            let duration_ns = moment.duration_ns.min(end_ns - *now_ns);
            filled.push(Moment {
                start_ns: *now_ns,
                duration_ns,
                ..*moment
            });
            *now_ns += duration_ns;
            moment.duration_ns -= duration_ns;
            if moment.duration_ns == 0 {
                next = loose.next();
            }
        }
    };
    for moment in fixed {
        fill(&mut now_ns, moment.start_ns, &mut filled);
        filled.push(*moment);
        now_ns = moment.end_ns();
    }
    fill(&mut now_ns, until_ns, &mut filled);
    // Sums of a damaged recording may be longer than the thread's life.
    fill(&mut now_ns, u64::MAX, &mut filled);
    filled
}

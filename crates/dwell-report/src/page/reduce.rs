//! Fewer moments, by a rule that is told.
use dwell_analysis::names::StackRef;
use dwell_analysis::{Moment, State};
use serde::Serialize;

/// What was put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Reduced {
    /// Moments shorter than this were put together with their neighbours, ns; 0: none was.
    pub shorter_than_ns: u64,
    /// How many there were before.
    pub before: usize,
    /// How many are left.
    pub after: usize,
}

impl Reduced {
    /// The least length, a power of two, with which no more than `most` moments are left.
    pub fn to_fit<'m>(threads: impl Iterator<Item = &'m [Moment]> + Clone, most: usize) -> Reduced {
        let before = threads.clone().map(<[Moment]>::len).sum();
        let left = |shorter_than_ns| {
            threads
                .clone()
                .map(|m| joined(m, shorter_than_ns).len())
                .sum()
        };
        let mut reduced = Reduced {
            shorter_than_ns: 0,
            before,
            after: before,
        };
        while reduced.after > most && reduced.shorter_than_ns < 1 << 62 {
            reduced.shorter_than_ns = (2 * reduced.shorter_than_ns).max(1 << 10);
            reduced.after = left(reduced.shorter_than_ns);
        }
        reduced
    }
}

/// Puts each run of short moments together until it is long enough, under what most of its time was.
pub(super) fn joined(moments: &[Moment], shorter_than_ns: u64) -> Vec<Moment> {
    let mut kept = Vec::new();
    let mut run: Vec<Moment> = Vec::new();
    let mut run_ns = 0;
    for moment in moments {
        if moment.duration_ns >= shorter_than_ns {
            kept.extend(whole(&mut run));
            run_ns = 0;
            kept.push(*moment);
            continue;
        }
        run_ns += moment.duration_ns;
        run.push(*moment);
        if run_ns >= shorter_than_ns {
            kept.extend(whole(&mut run));
            run_ns = 0;
        }
    }
    kept.extend(whole(&mut run));
    kept
}

/// One moment from the begin of the first to the end of the last.
fn whole(run: &mut Vec<Moment>) -> Option<Moment> {
    let (first, last) = (*run.first()?, *run.last()?);
    let mut sums: Vec<((State, StackRef), u64)> = Vec::new();
    for moment in run.drain(..) {
        let key = (moment.state, moment.stack);
        match sums.iter_mut().find(|(known, _)| *known == key) {
            Some((_, ns)) => *ns += moment.duration_ns,
            None => sums.push((key, moment.duration_ns)),
        }
    }
    let ((state, stack), _) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    Some(Moment {
        duration_ns: last.end_ns() - first.start_ns,
        state,
        stack,
        slice: None,
        ..first
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::names::Missing;

    fn moment(start_ns: u64, duration_ns: u64, state: State) -> Moment {
        Moment {
            start_ns,
            duration_ns,
            state,
            syscall: 0,
            stack: StackRef::Missing(Missing::NotSampled),
            slice: None,
        }
    }

    #[test]
    fn time_stays_and_long_moments_stay_as_they_are() {
        let mut moments = Vec::new();
        for round in 0..100 {
            moments.push(moment(round * 10_000, 100, State::Running));
            moments.push(moment(round * 10_000 + 100, 50, State::Runnable));
            moments.push(moment(round * 10_000 + 150, 9850, State::Running));
        }
        let reduced = joined(&moments, 1000);
        assert_eq!(reduced.len(), 200);
        let total = |all: &[Moment]| all.iter().map(|m| m.duration_ns).sum::<u64>();
        assert_eq!(total(&reduced), total(&moments));
        assert!(reduced.iter().all(|m| m.state == State::Running));
        assert!(
            reduced
                .windows(2)
                .all(|pair| pair[0].end_ns() <= pair[1].start_ns)
        );
        assert_eq!(joined(&moments, 0), moments);
        let fitted = Reduced::to_fit([moments.as_slice()].into_iter(), 250);
        assert_eq!((fitted.before, fitted.after), (300, 200));
        assert_eq!(
            Reduced::to_fit([moments.as_slice()].into_iter(), 300).shorter_than_ns,
            0
        );
    }
}

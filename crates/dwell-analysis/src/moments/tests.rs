use super::*;
use crate::testing::{MS, Scale, drawn, fixture};
use std::collections::BTreeMap;

type Sums = BTreeMap<(usize, usize, SyscallId), u64>;

fn sums(moments: &Moments, analysis: &Analysis<'_>) -> (Sums, Sums) {
    let (mut placed, mut exact) = (Sums::new(), Sums::new());
    for thread in 0..analysis.tables.threads.len() {
        for m in moments.of_thread(thread) {
            *placed
                .entry((thread, m.state.index(), m.syscall))
                .or_default() += m.duration_ns;
        }
    }
    for e in &analysis.profile.entries {
        *exact
            .entry((e.thread as usize, e.state.index(), e.syscall))
            .or_default() += e.weight_ns;
    }
    (placed, exact)
}

#[test]
fn moments_cover_each_life_without_gaps_and_add_up_to_the_exact_sums() {
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let analysis = Analysis::of(&tables);
    let moments = Moments::of(&analysis);
    let (placed, exact) = sums(&moments, &analysis);
    assert_eq!(placed, exact);
    for (position, thread) in tables.threads.iter().enumerate() {
        let mut now_ns = thread.start_ns;
        for moment in moments.of_thread(position) {
            assert_eq!(moment.start_ns, now_ns, "{}", thread.name);
            now_ns = moment.end_ns();
        }
        assert_eq!(now_ns, thread.until_ns, "{}", thread.name);
    }
}

#[test]
fn kept_waits_stand_where_they_were() {
    let tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    let analysis = Analysis::of(&tables);
    let moments = Moments::of(&analysis);
    let mut exact = 0;
    for position in 0..tables.threads.len() {
        for moment in moments.of_thread(position) {
            let Some(slice) = moment.slice.map(|at| &tables.slices[at as usize]) else {
                continue;
            };
            assert_eq!(analysis.index.thread(slice.thread), Some(position));
            let end_ns = slice.start_ns + slice.blocked_ns + slice.runnable_ns;
            assert!(moment.start_ns >= slice.start_ns && moment.end_ns() <= end_ns);
            exact += usize::from(
                moment.state != State::Runnable && moment.duration_ns == slice.blocked_ns,
            );
        }
    }
    let blocked = tables.slices.iter().filter(|s| s.blocked_ns > 0).count();
    assert!(
        exact * 100 > blocked * 90,
        "{exact} of {blocked} waits are whole"
    );
}

#[test]
fn what_was_seen_comes_in_the_order_of_time() {
    let tables = drawn(
        "state  | running | lock futex | running | lost
         time   | 30      | 10+2       | 7       | 1
         weight | 30      | 12         | 7       |
         stack  | main    | main       | main    |
                | a       | lock       | b       | ",
    );
    let analysis = Analysis::of(&tables);
    let moments = Moments::of(&analysis);
    let drawn: Vec<(State, u64)> = moments
        .of_thread(0)
        .iter()
        .map(|m| (m.state, m.duration_ns / MS))
        .filter(|(state, _)| *state != State::Lost)
        .collect();
    let ran: Vec<_> = drawn.iter().filter(|(s, _)| *s == State::Running).collect();
    let at = |wanted: (State, u64)| drawn.iter().position(|m| *m == wanted);
    assert!(ran.iter().map(|m| m.1).sum::<u64>() >= 36, "{drawn:?}");
    let lock = drawn
        .iter()
        .position(|(s, _)| matches!(s, State::Blocked(_)));
    assert!(lock < at((State::Running, 7)), "{drawn:?}");
}

#[test]
fn a_damaged_recording_is_placed_all_the_same() {
    let mut tables = fixture(Scale {
        seconds: 1,
        ..Scale::default()
    });
    for (at, thread) in tables.threads.iter_mut().enumerate() {
        match at % 3 {
            0 => thread.until_ns = thread.start_ns,
            1 => thread.running_ns = u64::MAX / 4,
            _ => thread.start_ns = u64::MAX,
        }
    }
    let analysis = Analysis::of(&tables);
    let moments = Moments::of(&analysis);
    assert!(!moments.of_thread(1).is_empty());
}

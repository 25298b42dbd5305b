//! A Perfetto trace: a track per thread, on it a slice per moment, named and categorised by the state.
//!
//! Slices lie behind each other, so their lengths add up to the time of each thread and state exactly. A slice has its
//! stack (`callstack`) and, as the stack's weight, its length in ns. A wait that was kept has an arrow from who ended it, where
//! that thread was recorded. Times are those of CLOCK_BOOTTIME.
mod packets;
pub mod proto;

use crate::frames::Frames;
use dwell_analysis::{Analysis, Moment, Moments, State};
use packets::{Packets, thread_track};
use proto::TrackEvent;
use std::io::{self, Write};

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;

/// Writes the trace.
pub fn write(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    let moments = Moments::of(analysis);
    let mut trace = Trace {
        analysis,
        packets: Packets::of(out, Frames::of(analysis)),
    };
    trace.packets.begin(analysis)?;
    for thread in 0..analysis.tables.threads.len() {
        trace.thread(thread, moments.of_thread(thread))?;
    }
    Ok(())
}

struct Trace<'a, 't, 'o, W> {
    analysis: &'a Analysis<'t>,
    packets: Packets<'a, 't, 'o, W>,
}

impl<W: Write> Trace<'_, '_, '_, W> {
    fn thread(&mut self, thread: usize, moments: &[Moment]) -> io::Result<()> {
        let mut woken_by = None;
        for moment in moments {
            self.moment(thread, moment, woken_by)?;
            woken_by = self.waking(thread, moment)?;
        }
        Ok(())
    }

    /// A slice; the arrow that leads to it, if one does.
    fn moment(&mut self, thread: usize, moment: &Moment, flow: Option<u64>) -> io::Result<()> {
        let callstack_iid = self.packets.callstack(moment)?;
        let name_iid = self.packets.name(&self.slice_name(moment))?;
        let category = match moment.state {
            State::Blocked(reason) => format!("blocked,{}", reason.name()),
            state => state.name().to_owned(),
        };
        let begin = TrackEvent {
            categories: category.split(',').map(str::to_owned).collect(),
            name_iid: Some(name_iid),
            r#type: SLICE_BEGIN,
            track_uuid: thread_track(thread),
            terminating_flow_ids: flow.into_iter().collect(),
            callstack_iid: Some(callstack_iid),
            callstack_weight: Some(moment.duration_ns as f64),
            ..TrackEvent::default()
        };
        self.packets.event(moment.start_ns, begin)?;
        let end = TrackEvent {
            r#type: SLICE_END,
            track_uuid: thread_track(thread),
            ..TrackEvent::default()
        };
        self.packets.event(moment.end_ns(), end)
    }

    fn slice_name(&self, moment: &Moment) -> String {
        let syscall = &self.analysis.profile.syscalls[moment.syscall as usize];
        match moment.state {
            State::Blocked(reason) if syscall.is_empty() => format!("blocked: {}", reason.name()),
            State::Blocked(reason) => format!("blocked: {} {syscall}", reason.name()),
            state => state.name().to_owned(),
        }
    }

    /// The instant at which another thread ended this wait, as the beginning of an arrow; the arrow's number.
    fn waking(&mut self, thread: usize, moment: &Moment) -> io::Result<Option<u64>> {
        let tables = self.analysis.tables;
        let slice = moment.slice.map(|at| &tables.slices[at as usize]);
        let blocked = matches!(moment.state, State::Blocked(_));
        let waker = slice.filter(|_| blocked).and_then(|s| s.waker_thread);
        let Some(waker) = waker.and_then(|id| self.analysis.index.thread(id)) else {
            return Ok(None);
        };
        let flow = u64::from(moment.slice.unwrap_or(0)) + 1;
        let waking = TrackEvent {
            categories: vec!["waking".to_owned()],
            name: Some(format!("wakes {}", tables.threads[thread].name)),
            r#type: INSTANT,
            track_uuid: thread_track(waker),
            flow_ids: vec![flow],
            ..TrackEvent::default()
        };
        self.packets.event(moment.end_ns(), waking)?;
        Ok(Some(flow))
    }
}

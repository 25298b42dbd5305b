//! Packets as they are written, and the numbers that they speak in.
use super::proto::*;
use crate::frames::{Frames, ThreadNames};
use dwell_analysis::names::StackRef;
use dwell_analysis::{Analysis, Moment, State};
use prost::Message;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{self, Write};

const SEQUENCE: u32 = 1;
const NUMBERS_BEGIN: u32 = 1;
const HAS_NUMBERS: u32 = 2;
/// Of Perfetto's `BuiltinClock`.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;

/// The track of the thread at this position.
pub(super) fn thread_track(thread: usize) -> u64 {
    1 + (1 << 32) + thread as u64
}

fn process_track(process: u32) -> u64 {
    1 + u64::from(process)
}

/// Writes packets; numbers are explained in the packet before the first that has them.
pub(super) struct Packets<'a, 't, 'o, W> {
    out: &'o mut W,
    frames: Frames<'a, 't>,
    known_frames: FxHashSet<u32>,
    names: FxHashMap<String, u64>,
    callstacks: FxHashMap<(StackRef, State, u32), u64>,
}

impl<'a, 't, 'o, W: Write> Packets<'a, 't, 'o, W> {
    pub fn of(out: &'o mut W, frames: Frames<'a, 't>) -> Packets<'a, 't, 'o, W> {
        Packets {
            out,
            frames,
            known_frames: FxHashSet::default(),
            names: FxHashMap::default(),
            callstacks: FxHashMap::default(),
        }
    }

    /// The clocks, and a track for every process and thread.
    pub fn begin(&mut self, analysis: &Analysis<'_>) -> io::Result<()> {
        let tables = analysis.tables;
        let clock = |clock_id, timestamp| Clock {
            clock_id,
            timestamp,
        };
        let at = tables.meta.clock;
        self.write(TracePacket {
            timestamp: Some(at.boottime_ns),
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![
                    clock(BOOTTIME, at.boottime_ns),
                    clock(REALTIME, at.realtime_ns),
                ],
                primary_trace_clock: BOOTTIME as i32,
            }),
            sequence_flags: NUMBERS_BEGIN,
            ..TracePacket::default()
        })?;
        let mut processes = FxHashSet::default();
        for (thread, row) in tables.threads.iter().enumerate() {
            let of = ThreadNames::of(analysis, thread);
            let pid = of.pid as i32;
            if processes.insert(row.process) {
                self.track(TrackDescriptor {
                    uuid: process_track(row.process),
                    process: Some(ProcessDescriptor {
                        pid,
                        process_name: of.process.to_owned(),
                    }),
                    ..TrackDescriptor::default()
                })?;
            }
            self.track(TrackDescriptor {
                uuid: thread_track(thread),
                parent_uuid: Some(process_track(row.process)),
                thread: Some(ThreadDescriptor {
                    pid,
                    tid: i64::from(of.tid),
                    thread_name: of.thread.to_owned(),
                }),
                ..TrackDescriptor::default()
            })?;
        }
        Ok(())
    }

    pub fn event(&mut self, timestamp: u64, event: TrackEvent) -> io::Result<()> {
        self.write(TracePacket {
            timestamp: Some(timestamp),
            track_event: Some(event),
            sequence_flags: HAS_NUMBERS,
            ..TracePacket::default()
        })
    }

    /// The number of a slice's name.
    pub fn name(&mut self, name: &str) -> io::Result<u64> {
        if let Some(iid) = self.names.get(name) {
            return Ok(*iid);
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), iid);
        let name = name.to_owned();
        self.explain(InternedData {
            event_names: vec![EventName { iid, name }],
            ..InternedData::default()
        })?;
        Ok(iid)
    }

    /// The number of a moment's stack.
    pub fn callstack(&mut self, moment: &Moment) -> io::Result<u64> {
        let key = (moment.stack, moment.state, moment.syscall);
        if let Some(iid) = self.callstacks.get(&key) {
            return Ok(*iid);
        }
        let iid = self.callstacks.len() as u64 + 1;
        self.callstacks.insert(key, iid);
        let frames = self.frames.of_moment(moment);
        let mut data = InternedData::default();
        for frame in &frames {
            if self.known_frames.insert(*frame) {
                let iid = u64::from(*frame) + 1;
                let str = self.frames.names[*frame as usize].clone().into_bytes();
                data.function_names.push(InternedString { iid, str });
                data.frames.push(Frame {
                    iid,
                    function_name_id: iid,
                });
            }
        }
        let frame_ids = frames.iter().map(|f| u64::from(*f) + 1).collect();
        data.callstacks.push(Callstack { iid, frame_ids });
        self.explain(data)?;
        Ok(iid)
    }

    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(TracePacket {
            track_descriptor: Some(track),
            ..TracePacket::default()
        })
    }

    fn explain(&mut self, data: InternedData) -> io::Result<()> {
        self.write(TracePacket {
            interned_data: Some(data),
            sequence_flags: HAS_NUMBERS,
            ..TracePacket::default()
        })
    }

    fn write(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = SEQUENCE;
        let trace = Trace {
            packet: vec![packet],
        };
        self.out.write_all(&trace.encode_to_vec())
    }
}

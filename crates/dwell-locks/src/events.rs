//! Reads the events of contended operations that the agent has written in a process.
use crate::blocks::{Event, What};
use crate::clock::Clock;
use crate::totals::Kind;
use dwell_agent::locks::layout::{
    BLOCKS, EVENT_WORDS, EVENTS, Event as Slot, HELD, KIND_SHIFT, NO_NUMBER, Totals, Words,
    lock_of, seal_of, what,
};
use rustc_hash::FxHashSet;
use std::hash::{Hash, Hasher};
use std::io;
use std::mem::{offset_of, size_of};

/// What was read, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// The events.
    pub events: Vec<Event>,
    /// Events that were written and are not among these, nor among those of another time: the buffer was
    /// full.
    pub lost: u64,
    /// Events that were written since the last time.
    pub written: u64,
    /// Up to when nothing is missing but what was lost, ns of CLOCK_BOOTTIME.
    pub until_ns: u64,
}

/// An event, or a note, as the agent wrote it. Most differ in their time, so that alone is hashed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Told(Words);

impl Told {
    /// When, in ticks.
    fn time(&self) -> u64 {
        self.0[0]
    }
}

impl Hash for Told {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.time().hash(hasher);
    }
}

/// What was read of the states of a process so far.
pub(crate) struct Reader {
    sources: Vec<Source>,
    clock: Clock,
    /// What has been read but may be followed by something older, with its time in ticks.
    kept: Vec<Told>,
    /// What has been read and is still noted: it comes once more, as a note or, where it was handed over before it was
    /// written, as an event.
    known: FxHashSet<Told>,
    /// When it was read last, in ticks.
    read: u64,
}

impl Reader {
    pub fn new(states: usize) -> Reader {
        let mut clock = Clock::start();
        Reader {
            sources: (0..states).map(|_| Source::default()).collect(),
            read: clock.look(),
            clock,
            kept: Vec::new(),
            known: FxHashSet::default(),
        }
    }

    /// What is new. An event is kept back until the next time, when all that are older have been written.
    pub fn drain(&mut self, memory: impl Fn(usize, usize, &mut [u8]) -> io::Result<()>) -> Drained {
        let until = self.read;
        self.read = self.clock.look();
        let drained = self.read(until, memory);
        self.hand_over(until, drained)
    }

    /// All that is left, when nobody writes any more.
    pub fn finish(
        &mut self,
        memory: impl Fn(usize, usize, &mut [u8]) -> io::Result<()>,
    ) -> Drained {
        let mut drained = self.read(u64::MAX, memory);
        let unfinished = self
            .sources
            .iter_mut()
            .map(|s| s.unfinished.drain(..).count() as u64);
        drained.lost += unfinished.sum::<u64>();
        let now = self.clock.look();
        self.hand_over(now, drained)
    }

    fn read(
        &mut self,
        until: u64,
        memory: impl Fn(usize, usize, &mut [u8]) -> io::Result<()>,
    ) -> Drained {
        let mut drained = Drained::default();
        let (mut notes, mut new) = (FxHashSet::default(), Vec::new());
        for state in 0..self.sources.len() {
            // A process that has ended and took its memory along has nothing to tell.
            let read = |offset: usize, bytes: &mut [u8]| memory(state, offset, bytes);
            // First: what is not noted any more is an event by then.
            notes.extend(noted(read).unwrap_or_default());
            let _ = self.sources[state].drain(read, &mut new, &mut drained);
        }
        let all = new.len();
        new.retain(|told| !self.known.contains(told));
        let again = (all - new.len()) as u64;
        self.kept.append(&mut new);
        self.known.retain(|told| notes.contains(told));
        let noted = self.kept.iter().filter(|told| notes.contains(*told));
        self.known.extend(noted);
        let early = self.hurry(notes.into_iter().filter(|told| told.time() <= until));
        drained.written = (drained.written + early).saturating_sub(again);
        drained
    }

    /// Takes in what is noted only, as it is time to hand it over; returns how many.
    fn hurry(&mut self, noted: impl Iterator<Item = Told>) -> u64 {
        let before = self.kept.len();
        for told in noted {
            if self.known.insert(told) {
                self.kept.push(told);
            }
        }
        (self.kept.len() - before) as u64
    }

    fn hand_over(&mut self, until: u64, mut drained: Drained) -> Drained {
        self.kept.sort_by_key(Told::time);
        let ready = self.kept.partition_point(|told| told.time() <= until);
        drained.events.reserve(ready);
        let ready = self.kept.drain(..ready);
        drained
            .events
            .extend(ready.filter_map(|told| event(&self.clock, told)));
        drained.until_ns = self.clock.ns(until);
        drained
    }
}

/// How the mutexes were acquired that threads hold after a wait, and how the waits began that threads are in.
fn noted(read: impl Fn(usize, &mut [u8]) -> io::Result<()>) -> io::Result<Vec<Told>> {
    const BLOCK: usize = HELD * size_of::<Slot>();
    let mut taken = [0; BLOCKS * 8];
    read(offset_of!(Totals, taken), &mut taken)?;
    let (taken, _) = taken.as_chunks::<8>();
    let mut found = Vec::new();
    for (block, _) in taken.iter().enumerate().filter(|(_, t)| **t != [0; 8]) {
        for notes in [offset_of!(Totals, acquired), offset_of!(Totals, attempts)] {
            let mut bytes = [0; BLOCK];
            read(notes + block * BLOCK, &mut bytes)?;
            let (slots, _) = bytes.as_chunks::<{ size_of::<Slot>() }>();
            found.extend(slots.iter().filter_map(|slot| whole(NO_NUMBER, slot)));
        }
    }
    Ok(found)
}

/// The events of one state.
#[derive(Default)]
struct Source {
    /// The number of the next one to be read.
    next: u64,
    /// Those that were begun when they were read, and not finished.
    unfinished: Vec<u64>,
}

/// Events that are read at a time.
const CHUNK: u64 = 4096;

impl Source {
    fn drain(
        &mut self,
        read: impl Fn(usize, &mut [u8]) -> io::Result<()>,
        events: &mut Vec<Told>,
        drained: &mut Drained,
    ) -> io::Result<()> {
        let mut begun = [0; 8];
        read(offset_of!(Totals, begun), &mut begun)?;
        let begun = u64::from_le_bytes(begun);
        // Each is in the place of its number, until a later one takes that.
        let oldest = begun.saturating_sub(EVENTS as u64);
        drained.written += begun.saturating_sub(self.next);
        drained.lost += oldest.saturating_sub(self.next);
        self.next = self.next.max(oldest);
        events.reserve(begun.saturating_sub(self.next) as usize);
        let most = CHUNK.min(begun.saturating_sub(self.next)).max(1);
        let mut bytes = vec![0; most as usize * size_of::<Slot>()];
        for number in std::mem::take(&mut self.unfinished) {
            let slot = &mut bytes[..size_of::<Slot>()];
            read(place_of(number), slot)?;
            match whole(number, slot) {
                Some(told) => events.push(told),
                None if number < oldest => drained.lost += 1,
                None => self.unfinished.push(number),
            }
        }
        while self.next < begun {
            let place = self.next % EVENTS as u64;
            let count = CHUNK.min(begun - self.next).min(EVENTS as u64 - place);
            let slots = &mut bytes[..count as usize * size_of::<Slot>()];
            read(place_of(self.next), slots)?;
            let (slots, _) = slots.as_chunks::<{ size_of::<Slot>() }>();
            for slot in slots {
                match whole(self.next, slot) {
                    Some(told) => events.push(told),
                    None => self.unfinished.push(self.next),
                }
                self.next += 1;
            }
        }
        Ok(())
    }
}

/// Where in the totals an event lies.
fn place_of(number: u64) -> usize {
    offset_of!(Totals, events) + number as usize % EVENTS * size_of::<Slot>()
}

/// The event of a place, if it is this one and whole.
fn whole(number: u64, slot: &[u8]) -> Option<Told> {
    let (all, _) = slot.as_chunks();
    let [seal, words @ ..] = all else {
        return None;
    };
    let words: [[u8; 8]; EVENT_WORDS] = words.try_into().ok()?;
    let words = words.map(u64::from_le_bytes);
    (seal_of(number, &words) == u64::from_le_bytes(*seal)).then_some(Told(words))
}

fn event(clock: &Clock, Told([time, since, key, caller, threads]): Told) -> Option<Event> {
    let (address, kind) = lock_of(key);
    let (caller, what) = (caller & ((1 << KIND_SHIFT) - 1), caller >> KIND_SHIFT);
    Some(Event {
        time_ns: clock.ns(time),
        since_ns: if since == 0 { 0 } else { clock.ns(since) },
        lock: address,
        kind: Kind::of(kind)?,
        what: match what {
            what::ATTEMPT => What::Attempt,
            what::ACQUIRED => What::Acquired,
            what::INHERITED => What::Inherited,
            what::GAVE_UP => What::GaveUp,
            what::RELEASED => What::Released,
            what::RELEASED_TO_WAIT => What::ReleasedToWait,
            what::ACQUIRED_AGAIN => What::AcquiredAgain,
            what::PASSED => What::Passed,
            _ => return None,
        },
        thread: threads as u32,
        owner: (threads >> 32) as u32,
        caller,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The totals of a process, as bytes.
    struct Memory(RefCell<Vec<u8>>);

    impl Memory {
        fn new() -> Memory {
            Memory(RefCell::new(vec![0; size_of::<Totals>()]))
        }

        fn begin(&self, events: u64) {
            let at = offset_of!(Totals, begun);
            self.0.borrow_mut()[at..at + 8].copy_from_slice(&events.to_le_bytes());
        }

        fn write(&self, number: u64, time: u64) {
            self.write_at(place_of(number), number, time);
        }

        /// In the first place of a block.
        fn note(&self, block: usize, time: u64) {
            let taken = offset_of!(Totals, taken) + block * 8;
            self.0.borrow_mut()[taken] = 1;
            let at = offset_of!(Totals, acquired) + block * HELD * size_of::<Slot>();
            self.write_at(at, NO_NUMBER, time);
        }

        fn write_at(&self, at: usize, number: u64, time: u64) {
            let words = [time, 0, 0x1000, 5 | what::RELEASED << KIND_SHIFT, 7];
            let all = std::iter::once(seal_of(number, &words)).chain(words);
            let bytes: Vec<u8> = all.flat_map(u64::to_le_bytes).collect();
            self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
        }

        fn read(&self, _: usize, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
            bytes.copy_from_slice(&self.0.borrow()[offset..offset + bytes.len()]);
            Ok(())
        }
    }

    #[test]
    fn hands_over_in_order_what_is_whole() {
        let memory = Memory::new();
        let mut reader = Reader::new(1);
        let now = reader.clock.look();
        memory.write(0, now + 30);
        memory.write(2, now + 10);
        memory.begin(3);
        // Nothing before it is known that nothing older comes.
        let first = reader.drain(|s, o, b| memory.read(s, o, b));
        assert_eq!((first.events.len(), first.written, first.lost), (0, 3, 0));
        memory.write(1, now + 20);
        let last = reader.finish(|s, o, b| memory.read(s, o, b));
        assert_eq!((last.events.len(), last.written, last.lost), (3, 0, 0));
        assert!(last.events.is_sorted_by_key(|e| e.time_ns));
        let event = last.events[0];
        assert_eq!((event.lock, event.thread, event.caller), (0x1000, 7, 5));
        assert_eq!(event.what, What::Released);
    }

    /// A wait and an acquisition are told with the release, but not later than they are needed, and once.
    #[test]
    fn what_is_only_noted_is_handed_over_in_time() {
        let memory = Memory::new();
        let mut reader = Reader::new(1);
        let now = reader.clock.look();
        memory.note(3, now);
        let read = |reader: &mut Reader| reader.drain(|s, o, b| memory.read(s, o, b));
        assert_eq!(read(&mut reader).events.len(), 0);
        let second = read(&mut reader);
        assert_eq!((second.events.len(), second.written), (1, 1));
        assert_eq!(second.events[0].what, What::Released);
        let third = read(&mut reader);
        assert_eq!((third.events.len(), third.written), (0, 0));
        memory.write(0, now);
        memory.write(1, now + 1);
        memory.begin(2);
        let last = reader.finish(|s, o, b| memory.read(s, o, b));
        assert_eq!((last.events.len(), last.written, last.lost), (1, 1, 0));
    }

    /// A thread may lose its processor between the event and the end of the note.
    #[test]
    fn what_is_noted_for_longer_than_it_is_told_is_told_once() {
        for is_early in [false, true] {
            let memory = Memory::new();
            let mut reader = Reader::new(1);
            let now = reader.clock.look();
            memory.note(3, now);
            let mut handed_over = || {
                let drained = reader.drain(|s, o, b| memory.read(s, o, b));
                drained.events.len()
            };
            if is_early {
                assert_eq!(handed_over() + handed_over(), 1);
            }
            memory.write(0, now);
            memory.begin(1);
            let told: usize = (0..4).map(|_| handed_over()).sum();
            assert_eq!(told, usize::from(!is_early));
        }
    }

    #[test]
    fn what_was_overwritten_or_never_finished_is_lost_and_counted() {
        let memory = Memory::new();
        let mut reader = Reader::new(1);
        let all = EVENTS as u64 + 100;
        for number in (0..all).filter(|n| *n != 5_000) {
            memory.write(number, 1 + number);
        }
        memory.begin(all);
        let first = reader.drain(|s, o, b| memory.read(s, o, b));
        let last = reader.finish(|s, o, b| memory.read(s, o, b));
        assert_eq!((first.written, first.lost, last.lost), (all, 100, 1));
        let read = first.events.len() + last.events.len();
        assert_eq!(read as u64 + first.lost + last.lost, first.written);
    }

    #[test]
    fn two_writers_in_one_place_make_no_event() {
        let memory = Memory::new();
        memory.write(0, 1);
        memory.0.borrow_mut()[place_of(0) + 8] ^= 1;
        memory.begin(1);
        let mut reader = Reader::new(1);
        let last = reader.finish(|s, o, b| memory.read(s, o, b));
        assert_eq!((last.events.len(), last.lost), (0, 1));
    }
}

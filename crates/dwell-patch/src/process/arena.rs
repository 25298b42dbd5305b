//! The memory we add to a target: where it may be, and what is where in it.
//!
//! ```text
//! code, executable:  header | patched windows | the agent | programs | stubs
//! data, writable:    counters, one stripe after another | link | state of the agent's code, first part
//! data, shared:      state, second part
//! owner, shared:     one page with the owner's word
//! ```
use super::attach::State;
use super::detour::{Room, Shared};
use super::segment::Segment;
use super::space::Mapping;
use dwell_agent::layout::{Header, Link, PatchedWindow, STATE_DISTANCE};
use std::io;
use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

const PAGE: u64 = 4096;
/// A jump reaches 2 GiB; some is left for the arena itself.
const REACH: u64 = (2 << 30) - (64 << 20);
/// Distance kept from other mappings, so that what grows or is placed next to them still may.
const MARGIN: u64 = 64 << 10;
/// How many times farther away it is tried each time that another mapping came first.
const FARTHER: u64 = 16;
/// Kept free above the heap.
const HEAP_ROOM: u64 = 1 << 30;
/// Kept free below the stack.
const STACK_ROOM: u64 = 16 << 30;
/// A gap wider than this parts a program and its heap from the libraries.
const WIDE: u64 = 64 << 30;
/// Lowest address that may be mapped (`vm.mmap_min_addr`).
const LOWEST: u64 = 64 << 10;
/// Past the highest address that a program may map.
const HIGHEST: u64 = 0x7fff_ffff_f000;
const CACHE_LINE: u64 = 64;

/// Sizes and offsets of an arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub agent: u64,
    pub programs: u64,
    pub stubs: u64,
    pub code_len: u64,
    pub counters: u64,
    pub stride: u64,
    pub stripe_bits: u32,
    pub link: u64,
    /// Of the state's first part, a page of its own; empty where that is [`Layout::shared`].
    pub state: u64,
    /// Of its second part.
    pub shared: u64,
    owner: u64,
}

/// Where in an arena with so many windows the agent is.
pub(super) fn agent_at(windows: usize) -> u64 {
    let table = size_of::<Header>() + windows * size_of::<PatchedWindow>();
    (table as u64).next_multiple_of(CACHE_LINE)
}

/// What the shared parts of an arena are, where they are segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    pub state: Option<Arc<Segment>>,
    pub owner: Option<Arc<Segment>>,
}

impl Segments {
    /// Those that an ordinary user needs.
    pub fn new(layout: &Layout) -> io::Result<Segments> {
        let segment = |len: u64| match len {
            0 => Ok(None),
            _ => Segment::new(len).map(|segment| Some(Arc::new(segment))),
        };
        Ok(Segments {
            state: segment(layout.owner - layout.shared)?,
            owner: segment(PAGE)?,
        })
    }
}

impl Layout {
    pub fn new(
        (windows, sites, stub_bytes): (usize, usize, usize),
        stripe_bits: u32,
        state_sizes: &State,
        programs_len: u64,
    ) -> Layout {
        let agent = agent_at(windows);
        let programs = (agent + dwell_agent::CODE.len() as u64).next_multiple_of(CACHE_LINE);
        let stubs = (programs + programs_len).next_multiple_of(CACHE_LINE);
        let code_len = (stubs + stub_bytes as u64).next_multiple_of(PAGE);
        // A link takes a cache line, so that it shares none with counters.
        const { assert!(size_of::<Link>() as u64 <= STATE_DISTANCE && STATE_DISTANCE == CACHE_LINE) };
        let stride = (sites as u64 * 8).next_multiple_of(CACHE_LINE);
        let counters = code_len;
        let state = (counters + (stride << stripe_bits) + STATE_DISTANCE).next_multiple_of(PAGE);
        let link = state - STATE_DISTANCE;
        let shared = state + state_sizes.own_len.next_multiple_of(PAGE);
        let owner = shared + state_sizes.shared_len.next_multiple_of(PAGE);
        Layout {
            agent,
            programs,
            stubs,
            code_len,
            counters,
            stride,
            stripe_bits,
            link,
            state,
            shared,
            owner,
        }
    }

    /// The memory of an arena at an address, with a word in the place of the link that tells it from any other.
    pub fn room(&self, address: u64, word: u64, segments: &Segments) -> Room {
        let at = |from: u64, to: u64| address + from..address + to;
        let shared = |range: Range<u64>, segment: &Option<Arc<Segment>>, is_writable| Shared {
            range,
            segment: segment.as_ref().map(|s| (s.id(), is_writable)),
        };
        let owner = at(self.owner, self.len());
        let mut parts = vec![
            shared(at(self.shared, self.owner), &segments.state, true),
            shared(owner.clone(), &segments.owner, false),
        ];
        parts.retain(|part| !part.range.is_empty());
        Room {
            address,
            len: self.len(),
            shared: parts,
            protections: vec![
                (at(0, self.code_len), libc::PROT_READ | libc::PROT_EXEC),
                (
                    at(self.code_len, self.owner),
                    libc::PROT_READ | libc::PROT_WRITE,
                ),
                // So that only we write it.
                (owner, libc::PROT_READ),
            ],
            wiped: at(self.state, self.shared),
            mark: (address + self.link, word),
        }
    }

    /// Offset of the owner's page.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// Bytes of the whole.
    pub fn len(&self) -> u64 {
        self.owner() + PAGE
    }
}

/// Stripes for a machine's processors: twice as many, so that two running threads seldom meet.
pub(super) fn stripe_bits() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * processors)
        .next_power_of_two()
        .trailing_zeros()
        .clamp(1, 6)
}

/// A free place of `len` bytes within a jump's reach of all of `near`, as close as may be; at the next `turn`
/// farther from where programs are given memory, if there is room.
pub(super) fn place(mappings: &[Mapping], near: &Range<u64>, len: u64, turn: u32) -> Option<u64> {
    let far = MARGIN * FARTHER.pow(turn);
    place_beyond(far, mappings, near, len).or_else(|| place_beyond(MARGIN, mappings, near, len))
}

fn place_beyond(margin: u64, mappings: &[Mapping], near: &Range<u64>, len: u64) -> Option<u64> {
    let reach = near.end.saturating_sub(REACH)..near.start.saturating_add(REACH);
    let gaps = gaps(mappings, margin).into_iter().filter_map(|gap| {
        let start = gap
            .start
            .max(reach.start)
            .max(LOWEST)
            .next_multiple_of(PAGE);
        let end = gap.end.min(reach.end).min(HIGHEST);
        let last = end.checked_sub(len)? & !(PAGE - 1);
        (start <= last).then_some(start..last)
    });
    // In each gap the end that is nearer.
    let places = gaps.map(|g| if g.end < near.start { g.end } else { g.start });
    // Below rather than above: programs grow upwards.
    let distance = |p: u64| {
        if p < near.start {
            near.start - p
        } else {
            p.saturating_sub(near.end)
        }
    };
    places.min_by_key(|&p| (p >= near.start, distance(p)))
}

/// Free address ranges, less what is kept free.
fn gaps(mappings: &[Mapping], margin: u64) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut free_from = 0;
    for (index, mapping) in mappings.iter().enumerate() {
        // A stack grows down into the gap below it.
        let below = match mapping.path.as_str() {
            "[stack]" => STACK_ROOM,
            _ => margin,
        };
        gaps.push(free_from..mapping.start.saturating_sub(below));
        // Where a heap is, or, above a program without one, will be.
        let next = mappings.get(index + 1).map_or(HIGHEST, |m| m.start);
        let is_wide = next.saturating_sub(mapping.end) > WIDE;
        let room = if is_wide || mapping.path == "[heap]" {
            HEAP_ROOM
        } else {
            margin
        };
        free_from = mapping.end.saturating_add(room);
    }
    gaps.push(free_from..HIGHEST);
    gaps.retain(|g| g.start < g.end);
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end,
            path: path.into(),
            ..Mapping::default()
        }
    }

    #[test]
    fn a_place_is_free_near_and_not_where_the_heap_grows() {
        let exe = mapping(0x5555_5555_4000, 0x5555_5556_0000, "/exe");
        let heap = mapping(0x5555_5556_0000, 0x5555_5560_0000, "[heap]");
        let near = exe.start..exe.end;
        let found = place(&[exe, heap], &near, 0x4000, 0).expect("room");
        assert_eq!(found, 0x5555_5555_4000 - MARGIN - 0x4000);
    }

    #[test]
    fn below_a_fixed_program_there_is_little_room() {
        let exe = mapping(0x40_0000, 0x50_0000, "/exe");
        let heap = mapping(0x60_0000, 0x70_0000, "[heap]");
        let near = exe.start..exe.end;
        let small = place(&[exe.clone(), heap.clone()], &near, 0x10_0000, 0).expect("room");
        assert!(small < exe.start, "{small:#x}");
        let large = place(&[exe, heap], &near, 0x80_0000, 0).expect("room");
        assert_eq!(large, 0x70_0000 + HEAP_ROOM);
    }

    /// MariaDB reserves the address space below its libraries.
    #[test]
    fn above_the_libraries_when_all_below_is_taken() {
        let reserved = mapping(LOWEST, 0x7f1e_8f00_0000, "");
        let libc = mapping(0x7f1e_8f00_0000, 0x7f1e_8fe5_6000, "/libc.so.6");
        let stack = |at: u64| mapping(at, at + 0x2_1000, "[stack]");
        let near = libc.start..libc.end;
        let place = |at: u64| {
            place(
                &[reserved.clone(), libc.clone(), stack(at)],
                &near,
                0x4000,
                0,
            )
        };
        assert_eq!(place(0x7ffe_abed_5000), Some(libc.end + HEAP_ROOM));
        // A stack that is near may grow.
        assert_eq!(place(libc.end + STACK_ROOM), None);
    }

    #[test]
    fn farther_away_each_time_while_there_is_room() {
        let low = mapping(0x7f00_0000_0000, 0x7f00_0010_0000, "/lib");
        let near = low.start..low.end;
        let all = [low, mapping(0x7f00_0010_0000, HIGHEST, "")];
        let places = [0, 1, 2].map(|turn| place(&all, &near, 0x1000, turn));
        let below = |distance: u64| Some(near.start - distance - 0x1000);
        assert_eq!(places, [below(64 << 10), below(1 << 20), below(16 << 20)]);
        // Farther than a jump reaches there is none: near again.
        assert_eq!(place(&all, &near, 0x1000, 6), below(64 << 10));
    }

    #[test]
    fn nothing_farther_than_a_jump() {
        let low = mapping(0x40_0000, 0x50_0000, "/exe");
        let wall = mapping(LOWEST, 0x3f_0000, "");
        let blocks = mapping(0x50_0000, 0x1_0000_0000, "");
        let near = low.start..low.end;
        assert_eq!(place(&[wall, low, blocks], &near, 0x1000, 0), None);
    }
}

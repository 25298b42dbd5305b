//! Gives a process back its own code, from what the arenas in its memory say.
//!
//! Three steps: every window's bytes are put back while all threads are held; the arena is watched until
//! no thread stands in it, and no signal handler will return there; then it is unmapped. A thread that
//! stands in a stub while the bytes are put back is left alone: the stub leads it out.
use super::contexts::saved;
use super::space::{Mapping, Space};
use super::threads::Threads;
use super::{PATIENCE_TO_RESTORE, PatchError, Pause, borrow, cookie, owner, while_stopped};
use dwell_agent::layout::{Header, JUMP_LEN, MAGIC, PatchedWindow};
use std::fs;
use std::mem::{offset_of, size_of};
use std::ops::Range;

/// Windows an arena may say it has: as many as fit in 2 GiB of stubs.
const MAX_WINDOWS: u64 = 1 << 24;

const PAGE: u64 = 4096;

/// What was put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// What it cost the process.
    pub pause: Pause,
    /// Windows that hold their own code again.
    pub windows: usize,
    /// Windows whose file was unmapped meanwhile.
    pub unmapped: usize,
    /// Windows that somebody else has overwritten since. They are left alone, and so are the arenas
    /// they may lead to.
    pub foreign: usize,
    /// Arenas that are still mapped, because of the above or because a signal handler is yet to return
    /// there.
    pub arenas_left: usize,
    /// Children that had inherited patches and were restored as well.
    pub children: usize,
}

/// An arena found in a process.
#[derive(Clone, Debug)]
pub(super) struct Remnant {
    pub address: u64,
    pub header: Header,
    pub windows: Vec<PatchedWindow>,
}

impl Remnant {
    /// The arenas of a process.
    pub fn find(space: &Space) -> Result<Vec<Remnant>, PatchError> {
        let mappings = space.mappings()?;
        let begins = |at: usize| mappings[at].executable && mappings[at].inode == 0;
        let candidates = (0..mappings.len()).filter(|&at| begins(at));
        let found = candidates.filter_map(|at| {
            Remnant::read(space, &mappings[at])
                .or_else(|| Remnant::half_made(space, &mappings[at..]))
        });
        Ok(found.collect())
    }

    /// An arena whose dwell was killed before it could write the header: empty code, directly followed
    /// by data, of which some may be shared, and a shared page.
    fn half_made(space: &Space, mappings: &[Mapping]) -> Option<Remnant> {
        let is_shared =
            |m: &Mapping| m.path.starts_with("/dev/zero") || m.path.starts_with("/SYSV");
        let is_data = |m: &Mapping| m.writable && (m.inode == 0 || is_shared(m));
        let (code, rest) = mappings.split_first()?;
        let data = rest.iter().take_while(|m| is_data(m)).count();
        let owner = rest.get(data)?;
        let is_joined = mappings[..data + 2].is_sorted_by(|a, b| a.end == b.start);
        let is_arena = data > 0
            && is_joined
            && !owner.writable
            && is_shared(owner)
            && owner.end - owner.start == PAGE;
        let mut head = vec![0; PAGE as usize];
        space.read(code.start, &mut head).ok()?;
        let header = Header {
            cookie: cookie(),
            arena_len: owner.end - code.start,
            code_len: code.end - code.start,
            owner: owner.start,
            ..Header::default()
        };
        let is_empty = head.iter().all(|&b| b == 0);
        (is_arena && is_empty).then_some(Remnant {
            address: code.start,
            header,
            windows: Vec::new(),
        })
    }

    fn read(space: &Space, mapping: &Mapping) -> Option<Remnant> {
        let mut words = [0u64; size_of::<Header>() / 8];
        for (index, word) in words.iter_mut().enumerate() {
            *word = space.read_u64(mapping.start + index as u64 * 8).ok()?;
        }
        let [magic, cookie, arena_len, code_len, owner, windows] = words;
        let header = Header {
            magic,
            cookie,
            arena_len,
            code_len,
            owner,
            windows,
        };
        let is_sound = magic == MAGIC && windows <= MAX_WINDOWS && code_len <= arena_len;
        if !is_sound {
            return None;
        }
        let mut bytes = vec![0; windows as usize * size_of::<PatchedWindow>()];
        space
            .read(mapping.start + size_of::<Header>() as u64, &mut bytes)
            .ok()?;
        let (windows, _) = bytes.as_chunks();
        let windows = windows.iter().map(window_of).collect();
        Some(Remnant {
            address: mapping.start,
            header,
            windows,
        })
    }

    /// Not so after an exec.
    pub fn is_there(&self, space: &Space) -> bool {
        space.read_u64(self.address).is_ok()
    }

    fn range(&self) -> Range<u64> {
        self.address..self.address + self.header.arena_len
    }

    /// Takes it away. What the process maps in its place at once is told from it by its cookie.
    fn unmap(&self, space: &Space) -> Result<(), PatchError> {
        let header = &self.header;
        if header.magic != MAGIC {
            // Half made: it has none yet.
            let whole = Header {
                magic: MAGIC,
                ..*header
            };
            write_header(space, self.address, &whole)?;
        }
        let mark = self.address + offset_of!(Header, cookie) as u64;
        borrow::unmap(space, self.address, header.arena_len, (mark, header.cookie))
    }
}

/// Says in an arena what it is.
pub(super) fn write_header(space: &Space, address: u64, header: &Header) -> Result<(), PatchError> {
    let Header {
        magic,
        cookie,
        arena_len,
        code_len,
        owner,
        windows,
    } = *header;
    let words = [magic, cookie, arena_len, code_len, owner, windows];
    space.write_words(address, &words)
}

fn window_of(bytes: &[u8; size_of::<PatchedWindow>()]) -> PatchedWindow {
    let mut window = PatchedWindow::default();
    let (address, rest) = bytes.split_at(8);
    window.address = address.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b));
    window.original.copy_from_slice(&rest[..JUMP_LEN]);
    window.jump.copy_from_slice(&rest[JUMP_LEN..2 * JUMP_LEN]);
    window
}

/// Restores a process whose dwell has died while it was attached. What a living one has patched is left
/// alone.
pub fn recover(pid: i32) -> Result<Restored, PatchError> {
    let space = Space::open(pid)?;
    let mut remnants = Remnant::find(&space)?;
    remnants.retain(|r| !owner::lives(&space, r.header.owner));
    restore(&space, &remnants, &mut || {})
}

/// Restores what these arenas patched, calls `last`, and removes them.
pub(super) fn restore(
    space: &Space,
    remnants: &[Remnant],
    last: &mut dyn FnMut(),
) -> Result<Restored, PatchError> {
    let mut restored = Restored::default();
    if remnants.is_empty() {
        return Ok(restored);
    }
    // Also after an exec: then another program may have memory of its own there.
    if !remnants.iter().any(|r| r.is_there(space)) {
        return Err(PatchError::Ended(space.pid));
    }
    let mut put_back = false;
    let mut left: Vec<&Remnant> = remnants.iter().collect();
    let mut pause = Pause::default();
    while_stopped(space, PATIENCE_TO_RESTORE, &mut pause, |threads| {
        if !put_back {
            for window in remnants.iter().flat_map(|r| &r.windows) {
                put_back_window(space, window, &mut restored)?;
            }
            put_back = true;
        }
        left = in_use(space, threads, remnants)?;
        Ok(left.is_empty().then_some(()))
    })?;
    restored.pause = pause;
    last();
    if restored.foreign > 0 {
        restored.arenas_left = remnants.len();
        return Ok(restored);
    }
    for remnant in remnants.iter().filter(|r| r.is_there(space)) {
        let is_left = left.iter().any(|l| l.address == remnant.address);
        if is_left || remnant.unmap(space).is_err() {
            restored.arenas_left += 1;
        }
    }
    Ok(restored)
}

fn put_back_window(
    space: &Space,
    window: &PatchedWindow,
    restored: &mut Restored,
) -> Result<(), PatchError> {
    let mut now = [0; JUMP_LEN];
    if space.read(window.address, &mut now).is_err() {
        restored.unmapped += 1;
    } else if now == window.jump {
        space.write(window.address, &window.original)?;
        restored.windows += 1;
    } else if now == window.original {
        // Never written, or mapped anew.
        restored.unmapped += 1;
    } else {
        restored.foreign += 1;
    }
    Ok(())
}

/// The arenas that some thread stands in, or will return to.
fn in_use<'r>(
    space: &Space,
    threads: &Threads,
    remnants: &'r [Remnant],
) -> Result<Vec<&'r Remnant>, PatchError> {
    let mappings = space.mappings()?;
    let mut positions = Vec::new();
    for held in threads.held() {
        positions.push(held.at.pc);
        positions.extend(saved(space, &mappings, held.at).iter().map(|s| s.pc));
    }
    let is_used = |r: &&Remnant| positions.iter().any(|p| r.range().contains(p));
    Ok(remnants.iter().filter(is_used).collect())
}

/// Restores the processes that have inherited these arenas by fork. Those that end meanwhile need it
/// no more.
pub(super) fn restore_children(parent: i32, remnants: &[Remnant]) -> usize {
    /// A child may fork while its siblings are looked at.
    const PASSES: usize = 3;
    let mut children = 0;
    for _ in 0..PASSES {
        let heirs = heirs(parent, remnants);
        if heirs.is_empty() {
            break;
        }
        for (space, inherited) in heirs {
            children += usize::from(restore(&space, &inherited, &mut || {}).is_ok());
        }
    }
    children
}

fn heirs(parent: i32, remnants: &[Remnant]) -> Vec<(Space, Vec<Remnant>)> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = processes.filter_map(|p| p.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let heir = |pid: i32| {
        // A look at the list of mappings first: it is cheap, and of no consequence for strangers.
        let maps = fs::read_to_string(format!("{}/maps", dwell_maps::folder(pid as u32))).ok()?;
        let begins = |r: &Remnant| maps.contains(&format!("{:x}-", r.address));
        if !remnants.iter().any(begins) {
            return None;
        }
        let space = Space::open(pid).ok()?;
        let mut found = Remnant::find(&space).ok()?;
        found.retain(|f| remnants.iter().any(|r| r.header.cookie == f.header.cookie));
        (!found.is_empty()).then_some((space, found))
    };
    pids.filter(|&pid| pid != parent).filter_map(heir).collect()
}

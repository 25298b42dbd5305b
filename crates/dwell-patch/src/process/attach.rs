//! Patches a running process.
use super::arena::{self, Layout, Segments};
use super::contexts::saved;
use super::modules::{Module, Probe};
use super::owner::{self, Owner};
use super::restore::{Remnant, Restored, restore, restore_children, write_header};
use super::segment::{Segment, Shared, may_open_mappings};
use super::space::Space;
use super::threads::Threads;
use super::{
    PATIENCE_TO_PATCH, PatchError, Pause, borrow, cookie, jump, memory_limits, while_stopped,
};
use crate::Hook;
use crate::plan::{self, HookSite, Plan, Refusal, Request, Window};
use dwell_agent::layout::{Header, JUMP_LEN, Link, MAGIC, PatchedWindow};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A function a probe named, and whether it was patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Index of the probe.
    pub probe: usize,
    /// The file.
    pub path: String,
    /// Stated address of the function.
    pub function: u64,
    /// Why it was not patched.
    pub refusal: Option<Refusal>,
    counter: Option<Counter>,
}

/// Where a spot's count is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    address: u64,
    stride: u64,
    stripes: u64,
}

/// The memory that the hooks of an arena share, mapped with it: zero but for its head. What is never
/// written to costs the process nothing but addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Bytes of its first part, which is the process' own: a child that it forks finds zeroes there.
    pub own_len: u64,
    /// Bytes of the part behind that, shared with us and with such children: it can be read after the
    /// end of the process.
    pub shared_len: u64,
    /// What it begins with before the first hook runs.
    pub head: Vec<u8>,
    /// There is one for all arenas, the first one's.
    pub is_common: bool,
}

/// Code for [`Hook::Program`], which is in each arena.
pub trait Programs {
    /// Bytes.
    fn size(&self) -> u64;
    /// Makes it for an arena; of the same length wherever that is.
    fn code(&self, at: &Placed) -> io::Result<Vec<u8>>;
}

/// Where things are that programs need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where they themselves begin.
    pub programs: u64,
    /// The agent.
    pub agent: u64,
    /// The state.
    pub state: u64,
    /// The owner's word, 0 for none.
    pub owner: u64,
}

/// Where the state of an arena is.
struct StateAt {
    address: u64,
    own_len: u64,
    /// Where its shared part is.
    shared_at: (u64, u64),
    /// What that is, if it is a segment.
    segment: Option<Arc<Segment>>,
    /// The shared part; none where there is none.
    shared: Option<Shared>,
}

/// A patched process.
pub struct Attachment {
    space: Space,
    spots: Vec<Spot>,
    arenas: Vec<Remnant>,
    states: Vec<StateAt>,
    pause: Pause,
    owner: Option<Owner>,
    detached: bool,
}

impl Attachment {
    /// Patches a process. What an earlier dwell left behind is restored first.
    pub fn new(pid: i32, probes: &[Probe]) -> Result<Attachment, PatchError> {
        Attachment::with_state(pid, probes, &State::default())
    }

    /// The same with memory for the hooks: each arena, that is each patched file, has its own.
    pub fn with_state(pid: i32, probes: &[Probe], state: &State) -> Result<Attachment, PatchError> {
        Attachment::with_programs(pid, probes, state, None)
    }

    /// The same with programs.
    pub fn with_programs(
        pid: i32,
        probes: &[Probe],
        state: &State,
        programs: Option<&dyn Programs>,
    ) -> Result<Attachment, PatchError> {
        let space = Space::open(pid)?;
        let mut left_behind = Remnant::find(&space)?;
        left_behind.retain(|r| !owner::lives(&space, r.header.owner));
        restore(&space, &left_behind, &mut || {})?;
        let mut attachment = Attachment {
            space,
            spots: Vec::new(),
            arenas: Vec::new(),
            states: Vec::new(),
            pause: Pause::default(),
            owner: None,
            detached: false,
        };
        let patches = attachment.prepare(probes, state, programs)?;
        // From here on an error leaves arenas, which dropping the attachment removes.
        attachment.apply(patches)?;
        Ok(attachment)
    }

    /// The functions that the probes named, each with its fate.
    pub fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// What attaching cost the process.
    pub fn pause(&self) -> Pause {
        self.pause
    }

    /// Whether the agent will notice our end. Without `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE` it
    /// cannot.
    pub fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// The count of each spot, 0 for those refused. None once the process has ended or become another
    /// program.
    pub fn counts(&self) -> Option<Vec<u64>> {
        self.spots.iter().map(|spot| self.count(spot)).collect()
    }

    fn count(&self, spot: &Spot) -> Option<u64> {
        let Some(counter) = spot.counter else {
            return Some(0);
        };
        let stripe = |s| {
            self.space
                .read_u64(counter.address + s * counter.stride)
                .ok()
        };
        (0..counter.stripes).map(stripe).sum()
    }

    /// Where in the process code of ours is.
    pub fn code(&self) -> Vec<Range<u64>> {
        let code = |a: &Remnant| a.address..a.address + a.header.code_len;
        self.arenas.iter().map(code).collect()
    }

    /// Where in the process the agent is, in each arena.
    pub fn agents(&self) -> Vec<u64> {
        let agent = |a: &Remnant| a.address + arena::agent_at(a.windows.len());
        self.arenas.iter().map(agent).collect()
    }

    /// Whether the process runs the program that was patched.
    pub fn is_there(&self) -> bool {
        self.arenas.iter().all(|arena| arena.is_there(&self.space))
    }

    /// Number of arenas that have a state.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// Reads from the state of an arena. The part that is shared can be read after the process has
    /// ended or become another program, where [`Attachment::is_shared`].
    pub fn read_state(&self, arena: usize, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.states.get(arena).ok_or(io::ErrorKind::NotFound)?;
        match &state.shared {
            Some(shared) if offset >= state.own_len => shared.read(offset - state.own_len, bytes),
            _ => self.space.read(state.address + offset, bytes),
        }
    }

    /// Writes to the state of an arena.
    pub fn write_state(&self, arena: usize, offset: u64, bytes: &[u8]) -> Result<(), PatchError> {
        let state = self
            .states
            .get(arena)
            .ok_or(PatchError::Ended(self.space.pid))?;
        self.space.write(state.address + offset, bytes)
    }

    /// The shared part of an arena's state, to be mapped and written to as well. It takes the same capabilities
    /// as [`Attachment::is_owned`].
    pub fn share_state(&self, arena: usize) -> io::Result<Shared> {
        let state = self.states.get(arena).ok_or(io::ErrorKind::NotFound)?;
        Shared::open(self.space.pid, state.shared_at, state.segment.as_ref())
    }

    /// Whether all states can be read after the end of the process. It takes the same capabilities as
    /// [`Attachment::is_owned`].
    pub fn is_shared(&self) -> bool {
        self.states.iter().all(|s| s.shared.is_some())
    }

    /// Gives the process, and the children it has forked, their own code back.
    pub fn detach(mut self) -> Result<Restored, PatchError> {
        self.undo(&mut |_| {})
    }

    /// The same; `last` is called when no thread passes a hook any more, before the arenas go, or when
    /// the process has ended.
    pub fn detach_after(
        mut self,
        mut last: impl FnMut(&Attachment),
    ) -> Result<Restored, PatchError> {
        self.undo(&mut last)
    }

    fn undo(&mut self, last: &mut dyn FnMut(&Attachment)) -> Result<Restored, PatchError> {
        self.detached = true;
        let arenas = std::mem::take(&mut self.arenas);
        let space = &self.space;
        let mut restored = restore(space, &arenas, &mut || last(self));
        if let Ok(restored) = &mut restored {
            restored.children = restore_children(space.pid, &arenas);
        }
        // An exec, or the end of the process, has removed everything already.
        if let Err(PatchError::Ended(_)) = restored {
            last(self);
            restored = Ok(Restored::default());
        }
        self.owner = None;
        restored
    }

    /// Plans, maps arenas and fills them: all that needs no pause.
    fn prepare(
        &mut self,
        probes: &[Probe],
        state: &State,
        programs: Option<&dyn Programs>,
    ) -> Result<Vec<Patch>, PatchError> {
        let mappings = self.space.mappings()?;
        let is_wanted = |path: &str| probes.iter().any(|p| path.ends_with(&p.file));
        let mut patches = Vec::new();
        for module in Module::all(&self.space, &mappings, is_wanted)? {
            let image = module.image()?;
            let (wanted, misplaced) = module
                .requests(&image, probes)
                .into_iter()
                .partition::<Vec<_>, _>(|(probe, _)| probes[*probe].is_possible());
            let spot = |(probe, request): &(usize, Request), refusal| Spot {
                probe: *probe,
                path: module.path.clone(),
                function: request.function,
                refusal,
                counter: None,
            };
            let refused = misplaced.iter().map(|m| spot(m, Some(Refusal::NotAnEntry)));
            self.spots.extend(refused);
            if wanted.is_empty() {
                continue;
            }
            let requests: Vec<Request> = wanted.iter().map(|w| w.1).collect();
            let mut plan = plan::plan(&image, &requests);
            self.refuse_restartable(&module, &image, &mut plan);
            let first = self.spots.len();
            self.spots.extend(wanted.iter().map(|w| spot(w, None)));
            for &(request, refusal) in &plan.refused {
                self.spots[first + request].refusal = Some(refusal);
            }
            if plan.windows.is_empty() {
                continue;
            }
            let hooks: Vec<Hook> = wanted.iter().map(|w| probes[w.0].hook).collect();
            let memory = (state, programs);
            patches.extend(self.prepare_module(&module, &plan, &hooks, first, memory)?);
        }
        Ok(patches)
    }

    /// A thread that leaves a restartable sequence for a stub would not be restarted.
    fn refuse_restartable(&self, module: &Module, image: &plan::Image<'_>, plan: &mut Plan) {
        let sequences = restartable(&self.space, module, image);
        if sequences.is_empty() {
            return;
        }
        let mut refused = Vec::new();
        plan.windows.retain(|window| {
            let start = window.start().wrapping_add(module.bias);
            let end = window.inside().end.wrapping_add(module.bias);
            let touches = sequences.iter().any(|s| s.start < end && start < s.end);
            if touches {
                refused.extend(
                    window
                        .sites
                        .iter()
                        .map(|s| (s.request, Refusal::Restartable)),
                );
            }
            !touches
        });
        plan.refused.extend(refused);
    }

    /// Maps an arena for a module and writes everything into it. One arena a module: simple, and a
    /// library that goes away takes nothing of others with it.
    fn prepare_module(
        &mut self,
        module: &Module,
        plan: &Plan,
        hooks: &[Hook],
        first_spot: usize,
        (state, programs): (&State, Option<&dyn Programs>),
    ) -> Result<Vec<Patch>, PatchError> {
        let common = self.states.first().filter(|_| state.is_common);
        let common = common.map(|s| s.address);
        let none = State::default();
        let state = if common.is_some() { &none } else { state };
        let programs_len = programs.map_or(0, Programs::size);
        let longest = |w: &Window| plan::longest_stub(w, |n| hooks[w.sites[n].request]);
        let stub_bytes = plan.windows.iter().map(longest).sum();
        let bits = arena::stripe_bits();
        let sizes = (plan.windows.len(), hooks.len(), stub_bytes);
        let layout = Layout::new(sizes, bits, state, programs_len);
        let segments = self.segments(&layout)?;
        let Some(address) = self.map_arena(module, &layout, &segments)? else {
            for window in &plan.windows {
                for site in &window.sites {
                    self.spots[first_spot + site.request].refusal = Some(Refusal::OutOfReach);
                }
            }
            return Ok(Vec::new());
        };
        let owner = self.owner_word(address, &layout, &segments);
        let link = Link {
            counters: address + layout.counters,
            stride: layout.stride,
            stripe_bits: u64::from(layout.stripe_bits),
            owner,
            state: common.unwrap_or(address + layout.state),
        };
        let hook_site = |request: usize| HookSite {
            hook: hooks[request],
            number: request as u64,
            link: address + layout.link,
            counters: link.counters,
            stride: layout.stride as u32,
            stripe_bits: layout.stripe_bits,
            agent: address + layout.agent,
            programs: address + layout.programs,
        };
        let mut stubs = Vec::new();
        let mut patches = Vec::new();
        for window in &plan.windows {
            let at = address + layout.stubs + stubs.len() as u64;
            match plan::assemble(window, module.bias, at, |n| {
                hook_site(window.sites[n].request)
            }) {
                Ok(stub) => {
                    stubs.extend(&stub.bytes);
                    stubs.resize(stubs.len().next_multiple_of(16), 0xcc);
                    patches.push(Patch::new(module, window, stub, first_spot));
                }
                Err(_) => {
                    for site in &window.sites {
                        self.spots[first_spot + site.request].refusal = Some(Refusal::OutOfReach);
                    }
                }
            }
        }
        self.keep_whole(&mut patches);
        for (request, _) in hooks.iter().enumerate() {
            let spot = &mut self.spots[first_spot + request];
            if spot.refusal.is_none() {
                let address = link.counters + request as u64 * 8;
                let stripes = 1 << layout.stripe_bits;
                spot.counter = Some(Counter {
                    address,
                    stride: layout.stride,
                    stripes,
                });
            }
        }
        self.fill_arena(address, &layout, &link, &stubs, &patches)?;
        if let Some(programs) = programs {
            let code = programs.code(&Placed {
                programs: address + layout.programs,
                agent: address + layout.agent,
                state: link.state,
                owner,
            });
            let code = code.map_err(|error| PatchError::Io {
                what: "making programs".into(),
                error,
            })?;
            debug_assert_eq!(code.len() as u64, programs_len);
            self.space.write(address + layout.programs, &code)?;
        }
        if common.is_none() {
            self.space.write(link.state, &state.head)?;
            let shared_at = (address + layout.shared, address + layout.owner());
            let segment = segments.state;
            self.states.push(StateAt {
                address: link.state,
                own_len: state.own_len,
                shared_at,
                shared: Shared::open(self.space.pid, shared_at, segment.as_ref()).ok(),
                segment,
            });
        }
        Ok(patches)
    }

    /// Drops the patches of requests that are refused in part.
    fn keep_whole(&mut self, patches: &mut Vec<Patch>) {
        let spots = &self.spots;
        patches.retain(|p| p.spots.iter().any(|&s| spots[s].refusal.is_none()));
    }

    /// What an arena shares with us where we may not open it as it is.
    fn segments(&self, layout: &Layout) -> Result<Segments, PatchError> {
        if may_open_mappings() {
            return Ok(Segments::default());
        }
        if memory_limits::locks_all(self.space.pid) {
            // All of a segment is used as soon as it is attached.
            return Err(PatchError::NoMemory {
                pid: self.space.pid,
                len: layout.len(),
                why: "it locks all its memory (mlockall), and what it would share with dwell too: run dwell as root".into(),
            });
        }
        Segments::new(layout).map_err(|error| PatchError::Io {
            what: "making memory to share".into(),
            error,
        })
    }

    /// None when there is no room.
    fn map_arena(
        &mut self,
        module: &Module,
        layout: &Layout,
        segments: &Segments,
    ) -> Result<Option<u64>, PatchError> {
        /// The process maps memory too, and may come first.
        const TRIES: u32 = 5;
        let mut failure = None;
        for turn in 0..TRIES {
            let mappings = self.space.mappings()?;
            let Some(address) = arena::place(&mappings, &module.code, layout.len(), turn) else {
                return Ok(None);
            };
            match borrow::map(&self.space, &layout.room(address, cookie(), segments)) {
                Ok(()) => {}
                Err(taken @ PatchError::Taken(_)) => {
                    failure = Some(taken);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let header = Header {
                magic: MAGIC,
                cookie: cookie(),
                arena_len: layout.len(),
                code_len: layout.code_len,
                // Until it is held: nobody's, should we be killed.
                owner: address + layout.owner(),
                windows: 0,
            };
            write_header(&self.space, address, &header)?;
            self.arenas.push(Remnant {
                address,
                header,
                windows: Vec::new(),
            });
            return Ok(Some(address));
        }
        failure.map_or(Ok(None), Err)
    }

    /// The address of the owner's word: of the first arena's page for all.
    fn owner_word(&mut self, address: u64, layout: &Layout, segments: &Segments) -> u64 {
        let first = self.arenas[0].header.owner;
        if self.owner.is_none() && self.arenas.len() == 1 {
            let page = address + layout.owner();
            self.owner = Owner::hold(&self.space, page, PAGE, segments.owner.as_ref()).ok();
        }
        let word = if self.owner.is_some() { first } else { 0 };
        if let Some(arena) = self.arenas.last_mut() {
            arena.header.owner = word;
        }
        word
    }

    fn fill_arena(
        &mut self,
        address: u64,
        layout: &Layout,
        link: &Link,
        stubs: &[u8],
        patches: &[Patch],
    ) -> Result<(), PatchError> {
        let words = [
            link.counters,
            link.stride,
            link.stripe_bits,
            link.owner,
            link.state,
        ];
        self.space.write_words(address + layout.link, &words)?;
        self.space
            .write(address + layout.agent, dwell_agent::CODE)?;
        self.space.write(address + layout.stubs, stubs)?;
        let windows: Vec<PatchedWindow> = patches.iter().map(Patch::window).collect();
        let mut table = Vec::with_capacity(windows.len() * size_of::<PatchedWindow>());
        for window in &windows {
            table.extend(window.address.to_le_bytes());
            table.extend(window.original);
            table.extend(window.jump);
            table.extend(window.padding);
        }
        self.space
            .write(address + size_of::<Header>() as u64, &table)?;
        let Some(arena) = self.arenas.last_mut() else {
            return Ok(());
        };
        arena.header.windows = windows.len() as u64;
        arena.windows = windows;
        let header = arena.header;
        write_header(&self.space, address, &header)
    }

    /// Writes the jumps, all threads held.
    fn apply(&mut self, mut patches: Vec<Patch>) -> Result<(), PatchError> {
        if patches.is_empty() {
            return Ok(());
        }
        patches.sort_by_key(|p| p.start);
        let mut pause = Pause::default();
        let space = &self.space;
        let changed = while_stopped(space, PATIENCE_TO_PATCH, &mut pause, |threads| {
            let (sound, changed) = check(space, &patches);
            if !move_threads(space, threads, &sound)? {
                return Ok(None);
            }
            for patch in sound {
                space.write(patch.start, &patch.jump)?;
            }
            Ok(Some(changed))
        })?;
        self.pause = pause;
        let changed = changed.ok_or(PatchError::NeverClear(self.space.pid))?;
        for (spot, refusal) in changed {
            self.spots[spot].refusal = Some(refusal);
            self.spots[spot].counter = None;
        }
        Ok(())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.detached {
            // Nobody is left to tell; a later attachment finds what remains.
            let _ = self.undo(&mut |_| {});
        }
    }
}

const PAGE: u64 = 4096;

/// A window in memory.
struct Patch {
    start: u64,
    /// Its displaced bytes.
    original: Vec<u8>,
    jump: [u8; JUMP_LEN],
    inside: Range<u64>,
    moved: Vec<(u64, u64)>,
    spots: Vec<usize>,
}

impl Patch {
    fn new(module: &Module, window: &Window, stub: plan::Stub, first_spot: usize) -> Patch {
        let start = window.start().wrapping_add(module.bias);
        let inside = window.inside();
        let original = module.bytes(window.start(), (inside.end - window.start()) as usize);
        let jump = jump(start, stub.address).expect("the arena was placed within reach");
        Patch {
            start,
            original,
            jump,
            inside: inside.start.wrapping_add(module.bias)..inside.end.wrapping_add(module.bias),
            moved: stub.moved,
            spots: window
                .sites
                .iter()
                .map(|s| first_spot + s.request)
                .collect(),
        }
    }

    fn window(&self) -> PatchedWindow {
        let mut window = PatchedWindow {
            address: self.start,
            jump: self.jump,
            ..Default::default()
        };
        window.original.copy_from_slice(&self.original[..JUMP_LEN]);
        window
    }

    /// Where a thread goes on that stands in the middle of the window.
    fn moved(&self, pc: u64) -> Option<u64> {
        self.moved.iter().find(|m| m.0 == pc).map(|m| m.1)
    }
}

/// The patches whose bytes are those of the file, and the spots of the others.
fn check<'p>(space: &Space, patches: &'p [Patch]) -> (Vec<&'p Patch>, Vec<(usize, Refusal)>) {
    let mut sound = Vec::new();
    let mut changed = Vec::new();
    for patch in patches {
        let mut now = vec![0; patch.original.len()];
        let refusal = match space.read(patch.start, &mut now) {
            Ok(()) if now == patch.original => {
                sound.push(patch);
                continue;
            }
            Ok(()) => Refusal::Changed,
            Err(_) => Refusal::Unmapped,
        };
        changed.extend(patch.spots.iter().map(|&s| (s, refusal)));
    }
    (sound, changed)
}

/// Moves every thread that stands in the middle of a window, or will return there from a signal
/// handler, to the same instruction in the stub. False when one cannot be moved: then none was harmed,
/// and it is tried again.
fn move_threads(space: &Space, threads: &Threads, patches: &[&Patch]) -> Result<bool, PatchError> {
    let mappings = space.mappings()?;
    let patch_at = |pc: u64| {
        let next = patches.partition_point(|p| p.start < pc);
        patches[..next].last().filter(|p| p.inside.contains(&pc))
    };
    for held in threads.held() {
        if let Some(patch) = patch_at(held.at.pc) {
            let moved = patch
                .moved(held.at.pc)
                .is_some_and(|pc| threads.set_pc(held, pc));
            if !moved {
                return Ok(false);
            }
        }
        for context in saved(space, &mappings, held.at) {
            let Some(patch) = patch_at(context.pc) else {
                continue;
            };
            let Some(pc) = patch.moved(context.pc) else {
                return Ok(false);
            };
            space.write(context.slot, &pc.to_le_bytes())?;
        }
    }
    Ok(true)
}

/// Actual addresses of a module's restartable sequences and of where they are aborted to.
fn restartable(space: &Space, module: &Module, image: &plan::Image<'_>) -> Vec<Range<u64>> {
    const ENTRY: u64 = 32;
    let Some(section) = image.file().section("__rseq_cs") else {
        return Vec::new();
    };
    let table = section.stated_address().wrapping_add(module.bias);
    let mut found = Vec::new();
    for entry in (table..table.saturating_add(section.size())).step_by(ENTRY as usize) {
        let word = |at: u64| space.read_u64(entry + at).unwrap_or(0);
        let (start, len, abort) = (word(8), word(16), word(24));
        found.push(start..start.saturating_add(len));
        // The kernel checks the four bytes before.
        found.push(abort.saturating_sub(4)..abort.saturating_add(1));
    }
    found
}

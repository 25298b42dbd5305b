//! Whether a loop only waits.
use crate::answer::{NotSpinning, Spinning};
use crate::depends::{INNER, Locations, Reads, Value};
use crate::function::Function;
use crate::loops::Loop;
use crate::machine::{Attempt, Exit, Machine};
use crate::state::State;
use std::rc::Rc;

/// Words that a wait looks at, at most, each place that reads counted: more is a search.
const MAX_READS: u32 = 16;

/// Loops around a place, or inside a loop, that are tried at most.
const MAX_TRIED: usize = 16;

/// Instructions executed for one loop at most, all passes together. One of 60 takes some 300.
const MAX_STEPS: u32 = 8_000;

/// What a call leads to.
pub enum Callee {
    /// Code that can be followed.
    Code(Rc<Function>),
    /// A function that lets others run or waits a moment, and does nothing else.
    Waits,
    /// Anything may happen there.
    Unknown,
}

/// How a call names what it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The address of the code.
    Address(u64),
    /// The address of the pointer to it: a slot of the global offset table.
    Slot(u64),
}

/// Knows what calls lead to.
pub trait Callees {
    /// What is at `target`.
    fn callee(&self, target: Target) -> Callee;
}

/// Knows of no callee: every call may work.
pub struct NoCallees;

impl Callees for NoCallees {
    fn callee(&self, _: Target) -> Callee {
        Callee::Unknown
    }
}

/// Whether the place at `address` spins: the first byte of an instruction, or any byte of a call whose
/// callee is running.
pub fn judge(
    function: &Function,
    address: u64,
    callees: &dyn Callees,
) -> Result<Spinning, NotSpinning> {
    judge_with(function, address, |body| waits(function, body, callees))
}

/// The same, with somebody who knows which loops wait.
pub(crate) fn judge_with(
    function: &Function,
    address: u64,
    mut waits: impl FnMut(usize) -> Result<(), NotSpinning>,
) -> Result<Spinning, NotSpinning> {
    let at = function.at(address).ok_or(NotSpinning::NoInstruction)?;
    let loops = function.loops().iter().enumerate();
    let around = loops.filter(|(_, body)| body.contains(at));
    let mut why = None;
    for (number, body) in around.take(MAX_TRIED) {
        match waits(number) {
            Ok(()) => {
                return Ok(Spinning {
                    header: function.instruction(body.header).ip(),
                    instructions: body.body.len(),
                });
            }
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    Err(why.unwrap_or(NotSpinning::NoLoop))
}

/// Whether a loop of the function, by its number, only waits.
pub(crate) fn waits(
    function: &Function,
    number: usize,
    callees: &dyn Callees,
) -> Result<(), NotSpinning> {
    let body = &function.loops()[number];
    let mut steps = MAX_STEPS;
    let found = waiting(function, body, callees, &mut steps)?;
    if found.is_clear || !found.is_plain {
        return Ok(());
    }
    let rest = function.back_edges_to(body.header);
    let mut rest = rest.filter(|&tail| !body.contains(tail));
    let is_whole = rest.all(|tail| {
        let around = function.loops().iter();
        let mut around = around.filter(|l| l.header == body.header && l.contains(tail));
        around.any(|l| waiting(function, l, callees, &mut steps).is_ok())
    });
    if is_whole {
        Ok(())
    } else {
        Err(NotSpinning::Idles)
    }
}

/// A loop that does nothing but wait.
struct Waiting {
    /// The words that end it, as terms.
    words: Vec<u64>,
    /// It has neither a `pause` nor an attempt: ordinary code may look like that.
    is_plain: bool,
    /// All it does is to test memory, once a turn.
    is_clear: bool,
}

/// Whether a loop only waits. A loop inside, or the turns without the update, may wait for a word that
/// it updates.
fn waiting(
    function: &Function,
    body: &Loop,
    callees: &dyn Callees,
    steps: &mut u32,
) -> Result<Waiting, NotSpinning> {
    let (waiting, updated) = examine(function, body, callees, steps)?;
    if updated.is_empty() {
        return Ok(waiting);
    }
    let sites: Vec<usize> = updated.iter().map(|a| a.site).collect();
    let without = body.without(function, &sites);
    let inner = function.loops().iter().filter(|inner| body.encloses(inner));
    let waited: Vec<u64> = inner
        .take(MAX_TRIED)
        .chain(&without)
        .filter_map(|inner| Some((inner, examine(function, inner, callees, steps).ok()?)))
        .filter(|(_, (_, updated))| updated.is_empty())
        // Turns that only read may be those of an update that finds nothing to do.
        .filter(|(inner, (waiting, _))| !waiting.is_plain || Some(*inner) != without.as_ref())
        .flat_map(|(_, (waiting, _))| waiting.words)
        .collect();
    if updated.iter().all(|a| waited.contains(&a.word)) {
        Ok(waiting)
    } else {
        Err(NotSpinning::Updates)
    }
}

/// The same, but for words that are updated rather than tried for: the updates are told.
fn examine(
    function: &Function,
    body: &Loop,
    callees: &dyn Callees,
    steps: &mut u32,
) -> Result<(Waiting, Vec<Attempt>), NotSpinning> {
    let mut machine = Machine::new(callees, function.has_frame_pointer(), *steps);
    let end = machine.turn(function, body);
    *steps = machine.steps_left;
    let carried = Carried::new(&machine, &end?);
    let facts = &machine.facts;
    if carried.is_counted(facts.address_locations) {
        return Err(NotSpinning::Walks);
    }
    if facts.computed.iter().any(|&of| carried.is_counted(of)) {
        return Err(NotSpinning::Works);
    }
    let deciding = facts.deciding_reads | carried.reads(facts.deciding_locations);
    let shared = facts.shared_reads;
    if shared & !deciding & !facts.idle_reads != 0 || shared.count_ones() > MAX_READS {
        return Err(NotSpinning::Collects);
    }
    let exits = facts.exits.values();
    let (counting, ending): (Vec<&Exit>, Vec<&Exit>) =
        exits.partition(|exit| carried.is_counted(exit.carried));
    // A loop that goes on while a counter has one value goes round once.
    if counting.iter().any(|exit| exit.unless_equal) {
        return Err(NotSpinning::Counts);
    }
    let ends = ending.iter().fold(0, |all, exit| {
        all | exit.reads | carried.reads(exit.carried)
    });
    let ends = ends & !facts.clock_reads;
    if ends == 0 && !facts.pauses {
        return Err(NotSpinning::Counts);
    }
    let is_plain = facts.attempts.is_empty() && !facts.pauses;
    let counts = carried.is_counted(facts.deciding_locations);
    if is_plain && facts.calls && (counts || facts.exits.len() > 1) {
        return Err(NotSpinning::Idles);
    }
    if is_plain && carried.is_marked(facts.deciding_locations) {
        return Err(NotSpinning::Idles);
    }
    let numbers = (0..machine.reads.len()).filter(|i| ends & (1 << i) != 0);
    let waiting = Waiting {
        words: numbers.map(|i| machine.reads[i].word).collect(),
        is_plain,
        is_clear: !counts && !facts.calls && facts.exits.len() == 1,
    };
    let updates = facts.attempts.iter();
    let updates = updates.filter(|a| !carried.is_repeated(a, facts.own_reads));
    Ok((waiting, updates.copied().collect()))
}

/// What locations hold when a turn begins, as far as the turn before has changed it.
struct Carried {
    /// For each location, those it depends on over any number of turns.
    reach: Vec<Locations>,
    /// For each location, the reads of the turn before that it depends on.
    reads: Vec<Reads>,
    /// Locations that depend on what they held themselves: counters and worse.
    counted: Locations,
}

impl Carried {
    fn new(machine: &Machine<'_>, end: &State) -> Self {
        let changing = machine.entry.changing;
        let ends: Vec<Option<Value>> = (0..127)
            .map(|l| (changing & (1 << l) != 0).then(|| end.get(l, &machine.entry)))
            .collect();
        let mut reach: Vec<Locations> = ends.iter().map(|v| v.map_or(0, |v| v.carried)).collect();
        let reads = ends.iter().map(|v| v.map_or(0, |v| v.reads)).collect();
        loop {
            let further: Vec<Locations> = reach.iter().map(|of| union(*of, &reach) | of).collect();
            if further == reach {
                break;
            }
            reach = further;
        }
        let counted = (0..127).filter(|&l| reach[l] & (1 << l) != 0);
        let counted = counted.fold(INNER, |set, l| set | 1 << l);
        Carried {
            reach,
            reads,
            counted,
        }
    }

    /// Whether something of `of` comes from what a location held many turns ago.
    fn is_counted(&self, of: Locations) -> bool {
        (of | union(of, &self.reach)) & self.counted != 0
    }

    /// Whether something of `of` is a mark that the turn before has left: a wait has nothing to tell
    /// its next turn.
    fn is_marked(&self, of: Locations) -> bool {
        let all = of | union(of, &self.reach);
        let mut left = (0..127).filter(|l| all & !self.counted & (1 << l) != 0);
        left.any(|l| self.reads[l] == 0 && self.reach[l] == 0)
    }

    /// The reads that `of` comes from.
    fn reads(&self, of: Locations) -> Reads {
        let all = of | union(of, &self.reach);
        self.reads
            .iter()
            .enumerate()
            .filter(|(l, _)| all & (1 << l) != 0)
            .fold(0, |set, (_, reads)| set | reads)
    }

    /// Whether the attempt is the same every time. One that expects what was just read is an update
    /// in the making: a maximum, a flag that is set among others.
    fn is_repeated(&self, attempt: &Attempt, own: Reads) -> bool {
        attempt.new.is_some_and(|new| {
            let of = new.carried | attempt.expected.carried;
            let reads = new.reads | attempt.expected.reads | self.reads(of);
            !self.is_counted(of) && reads & !own == 0
        })
    }
}

fn union(of: Locations, sets: &[Locations]) -> Locations {
    sets.iter()
        .enumerate()
        .filter(|(l, _)| of & (1 << l) != 0)
        .fold(0, |all, (_, set)| all | set)
}

//! Executes a loop's body, and what it calls, on dependencies.
use crate::answer::NotSpinning;
use crate::depends::{Locations, Reads, Value, mix};
use crate::effects::Flow;
use crate::function::{Equal, Function};
use crate::judge::{Callee, Callees, Target};
use crate::loops::{self, Loop};
use crate::state::{Entry, FLAGS, Location, Meeting, State, location};
use iced_x86::{ConditionCode, FlowControl, InstructionInfoFactory, Register};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Instructions of a function that is followed at most.
const MAX_CALLEE: usize = 128;

/// How deep calls are followed: debug builds of atomics have three calls, one in the other.
const MAX_DEPTH: u32 = 4;

/// A read of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    /// The address, as a term.
    pub word: u64,
}

/// An atomic operation that writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// The address, as a term.
    pub word: u64,
    /// What is written; none for arithmetic on what is there.
    pub new: Option<Value>,
    /// The instruction of the loop that makes it, or calls what does.
    pub site: usize,
    /// What has to be there for it to be written; a constant where anything may.
    pub expected: Value,
}

/// A branch out of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exit {
    /// The reads that it depends on.
    pub reads: Reads,
    /// What it depends on of the turn before.
    pub carried: Locations,
    /// The loop goes on only where two values are equal.
    pub unless_equal: bool,
}

/// What the body was seen to do.
#[derive(Default)]
pub(crate) struct Facts {
    /// The branches out of the loop.
    pub exits: BTreeMap<u64, Exit>,
    /// Reads that decide a branch, an address or an attempt.
    pub deciding_reads: Reads,
    /// The same for what is carried from turn to turn.
    pub deciding_locations: Locations,
    /// What addresses depend on.
    pub address_locations: Locations,
    /// Reads of memory that others may write, and of clocks.
    pub shared_reads: Reads,
    /// Reads of the function's own stack.
    pub own_reads: Reads,
    /// Reads that need not decide anything.
    pub idle_reads: Reads,
    /// Readings of a clock.
    pub clock_reads: Reads,
    /// What more than counting was done with.
    pub computed: BTreeSet<Locations>,
    pub attempts: Vec<Attempt>,
    /// Whether there is a `pause`.
    pub pauses: bool,
    /// Whether functions are called.
    pub calls: bool,
}

pub(crate) struct Machine<'a> {
    callees: &'a dyn Callees,
    pub entry: Entry,
    pub facts: Facts,
    /// By number of the read.
    pub reads: Vec<Read>,
    read_numbers: HashMap<u64, u8>,
    pub steps_left: u32,
    /// The instruction of the loop that is being executed, or whose callee is.
    pub site: usize,
    pub info: InstructionInfoFactory,
}

impl<'a> Machine<'a> {
    pub fn new(callees: &'a dyn Callees, frame_pointer: bool, steps_left: u32) -> Self {
        Machine {
            callees,
            entry: Entry::new(frame_pointer),
            facts: Facts::default(),
            reads: Vec::new(),
            read_numbers: HashMap::new(),
            steps_left,
            site: 0,
            info: InstructionInfoFactory::new(),
        }
    }

    /// Executes the loop's body until it is known which locations a turn changes; what they hold at
    /// the end of a turn.
    pub fn turn(&mut self, function: &Function, body: &Loop) -> Result<State, NotSpinning> {
        loop {
            self.facts = Facts::default();
            let start = State::new(&self.entry);
            let end = self.execute(function, Some(body), start, 0, 0)?;
            let end = end.ok_or(NotSpinning::NoLoop)?;
            let changing = self.entry.changing | end.changed(&self.entry);
            if changing == self.entry.changing {
                return Ok(end);
            }
            self.entry.changing = changing;
        }
    }

    /// Executes a loop's body, or a whole function from its entry; the state at the end of the turn,
    /// or where the function returns. None when it never does.
    fn execute(
        &mut self,
        function: &Function,
        body: Option<&Loop>,
        start: State,
        caller: u64,
        depth: u32,
    ) -> Result<Option<State>, NotSpinning> {
        let first = body.map_or(0, |body| body.header);
        let stays = |next: &usize| match body {
            Some(body) => *next != body.header && body.contains(*next),
            None => true,
        };
        let edges = |i: usize| function.successors(i).iter().filter(stays);
        let headers = loops::headers(first, function.len(), edges);
        let mut states = BTreeMap::from([(first, start)]);
        let mut pending = BTreeSet::from([first]);
        let mut end: Option<State> = None;
        while let Some(i) = pending.pop_first() {
            self.steps_left = self
                .steps_left
                .checked_sub(1)
                .ok_or(NotSpinning::TooLarge)?;
            if body.is_some() {
                self.site = i;
            }
            let mut state = states[&i].clone();
            let instruction = function.instruction(i);
            let place = mix(caller, instruction.ip());
            let leaves_function = function.successors(i).jump.is_none();
            let returned =
                match self.instruction(instruction, leaves_function, &mut state, place)? {
                    Flow::On => None,
                    Flow::Dead => continue,
                    Flow::Return => Some(state.clone()),
                    Flow::Call(target) => {
                        self.move_stack(&mut state, -8);
                        self.call(target, &mut state, place, depth)?;
                        self.move_stack(&mut state, 8);
                        None
                    }
                    Flow::Jump(target) => {
                        // Returns in our place.
                        self.call(target, &mut state, place, depth)?;
                        Some(state.clone())
                    }
                };
            if let Some(returned) = returned {
                self.meet(&mut end, returned, caller);
                continue;
            }
            let successors = function.successors(i);
            if instruction.flow_control() == FlowControl::ConditionalBranch {
                self.branch(function, body, i, &state, place);
            }
            let equal = function.equal_on(i);
            for next in successors.iter() {
                if body.is_some_and(|body| next == body.header) {
                    self.meet(&mut end, state.clone(), caller);
                } else if stays(&next) {
                    let known = equal.filter(|known| known.on == next);
                    let state = match known {
                        Some(known) => &self.refine(&state, known),
                        None => &state,
                    };
                    let at = Meeting {
                        place: mix(caller, function.instruction(next).ip()),
                        inner: headers.contains(&next),
                    };
                    if self.arrive(&mut states, next, state, at) {
                        pending.insert(next);
                    }
                }
            }
        }
        Ok(end)
    }

    fn arrive(
        &mut self,
        states: &mut BTreeMap<usize, State>,
        next: usize,
        state: &State,
        at: Meeting,
    ) -> bool {
        let deciding = self.deciding();
        match states.get_mut(&next) {
            Some(known) => known.join(state, at, deciding, &self.entry),
            None => {
                states.insert(next, state.clone());
                true
            }
        }
    }

    fn meet(&mut self, end: &mut Option<State>, state: State, caller: u64) {
        let at = Meeting {
            place: mix(caller, 6),
            inner: false,
        };
        let deciding = self.deciding();
        match end {
            Some(end) => drop(end.join(&state, at, deciding, &self.entry)),
            None => *end = Some(state),
        }
    }

    /// What branches have been decided by so far.
    fn deciding(&self) -> Value {
        Value {
            reads: self.facts.deciding_reads,
            carried: self.facts.deciding_locations,
            ..Value::same(0)
        }
    }

    /// Notes what a conditional branch depends on.
    fn branch(
        &mut self,
        function: &Function,
        body: Option<&Loop>,
        i: usize,
        state: &State,
        place: u64,
    ) {
        const COUNT: Location = 1; // rcx, which the others count down
        let instruction = function.instruction(i);
        let by_flags = instruction.is_jcc_short_or_near();
        let condition = state.get(if by_flags { FLAGS } else { COUNT }, &self.entry);
        self.decide(condition);
        let successors = function.successors(i);
        let stays = |to: Option<u32>| {
            body.is_none_or(|body| to.is_some_and(|to| body.contains(to as usize)))
        };
        let (next, jump) = (stays(successors.next), stays(successors.jump));
        if next && jump {
            return;
        }
        let exit = self.facts.exits.entry(place).or_default();
        exit.reads |= condition.reads;
        exit.carried |= condition.carried;
        exit.unless_equal = match instruction.condition_code() {
            ConditionCode::e => jump,
            ConditionCode::ne => next,
            _ => false,
        };
    }

    /// The state on a way that is taken only where a register has a known value.
    fn refine(&self, state: &State, known: Equal) -> State {
        let mut refined = state.clone();
        if let Some(location) = location(known.register) {
            refined.set(location, Value::constant(known.number));
        }
        refined
    }

    fn call(
        &mut self,
        target: Target,
        state: &mut State,
        place: u64,
        depth: u32,
    ) -> Result<(), NotSpinning> {
        let function = match self.callees.callee(target) {
            Callee::Waits => {
                self.forget(state, place);
                return Ok(());
            }
            Callee::Code(function) if depth < MAX_DEPTH && function.len() <= MAX_CALLEE => function,
            _ => return Err(NotSpinning::Calls),
        };
        self.facts.calls = true;
        let returned = self.execute(&function, None, state.clone(), place, depth + 1)?;
        *state = returned.ok_or(NotSpinning::Calls)?;
        Ok(())
    }

    /// What a function of which only its purpose is known leaves in the registers it need not keep.
    fn forget(&mut self, state: &mut State, place: u64) {
        use Register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI};
        for register in [RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11] {
            self.write_register(state, register, Value::same(mix(place, register as u64)));
        }
        state.set(FLAGS, Value::same(place));
    }

    /// The number of the read at `place`; an error when there are more than a wait has.
    pub fn read_number(&mut self, place: u64, word: u64) -> Result<u8, NotSpinning> {
        if let Some(number) = self.read_numbers.get(&place) {
            return Ok(*number);
        }
        let number = self.reads.len() as u8;
        if u32::from(number) >= Reads::BITS {
            return Err(NotSpinning::TooLarge);
        }
        self.reads.push(Read { word });
        self.read_numbers.insert(place, number);
        Ok(number)
    }
}

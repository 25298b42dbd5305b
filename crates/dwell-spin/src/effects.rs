//! What one instruction does to dependencies.
use crate::answer::NotSpinning;
use crate::depends::{Kind, Value, mix};
use crate::judge::Target;
use crate::machine::{Attempt, Machine};
use crate::state::{FLAGS, Location, State, location};
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register};

/// Number of `sched_yield` among the system calls.
const SCHED_YIELD: i64 = 24;

/// No process has memory below.
const FIRST_MAPPED: i64 = 1 << 12;

/// What is expected where anything may be.
const ANYTHING: Value = Value::constant(0);

/// Where control goes after an instruction.
pub(crate) enum Flow {
    /// To a successor in the function.
    On,
    /// Nowhere.
    Dead,
    Return,
    Call(Target),
    /// To another function, which returns in our place.
    Jump(Target),
}

/// Where an operand in memory lies.
enum Place {
    /// A slot of the function's own stack.
    Slot(Location),
    /// Memory of the thread's own.
    Thread(Value),
    /// Any other memory: its address.
    Memory(Value),
}

type Result<T> = std::result::Result<T, NotSpinning>;

impl Machine<'_> {
    /// Executes an instruction; `place` tells it from others, also of other calls.
    pub fn instruction(
        &mut self,
        instruction: &Instruction,
        leaves_function: bool,
        state: &mut State,
        place: u64,
    ) -> Result<Flow> {
        if is_no_wait(instruction) {
            return Err(NotSpinning::Instruction);
        }
        match instruction.flow_control() {
            FlowControl::Next => self.plain(instruction, state, place)?,
            FlowControl::ConditionalBranch => {
                if instruction.is_loop() || instruction.is_loopcc() {
                    self.general(instruction, state, place)?;
                }
            }
            FlowControl::UnconditionalBranch if leaves_function => {
                return Ok(Flow::Jump(Target::Address(
                    instruction.near_branch_target(),
                )));
            }
            FlowControl::UnconditionalBranch => {}
            FlowControl::IndirectBranch => return Ok(Flow::Jump(slot_of(instruction)?)),
            FlowControl::Return => return Ok(Flow::Return),
            FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => {
                self.system_call(state, place)?;
            }
            FlowControl::Call => {
                return Ok(Flow::Call(Target::Address(
                    instruction.near_branch_target(),
                )));
            }
            FlowControl::IndirectCall => return Ok(Flow::Call(slot_of(instruction)?)),
            FlowControl::Exception => return Ok(Flow::Dead),
            FlowControl::Interrupt | FlowControl::XbeginXabortXend => {
                return Err(NotSpinning::Instruction);
            }
        }
        Ok(Flow::On)
    }

    fn system_call(&mut self, state: &mut State, place: u64) -> Result<()> {
        if self.register(state, Register::RAX).kind != Kind::Constant(SCHED_YIELD) {
            return Err(NotSpinning::Calls);
        }
        for register in [Register::RAX, Register::RCX, Register::R11] {
            self.write_register(state, register, Value::same(mix(place, register as u64)));
        }
        Ok(())
    }

    fn plain(&mut self, instruction: &Instruction, state: &mut State, place: u64) -> Result<()> {
        use Mnemonic as M;
        match instruction.mnemonic() {
            M::Nop | M::Endbr64 | M::Lfence | M::Mfence | M::Sfence => {}
            M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 | M::Prefetchnta | M::Prefetchw => {}
            M::Pause | M::Tpause | M::Umwait | M::Umonitor => self.facts.pauses = true,
            M::Rdtsc | M::Rdtscp => self.clock(instruction, state, place)?,
            M::Push => {
                let value = self.operand(instruction, 0, state, place)?;
                self.push(state, value)?;
            }
            M::Pop if instruction.op0_kind() == OpKind::Register => {
                let value = self.pop(state)?;
                self.write_register(state, instruction.op0_register(), value);
            }
            M::Leave => {
                let frame = self.register(state, Register::RBP);
                self.write_register(state, Register::RSP, frame);
                let value = self.pop(state)?;
                self.write_register(state, Register::RBP, value);
            }
            M::Mov => {
                let value = self.operand(instruction, 1, state, place)?;
                self.write_operand(instruction, 0, state, value)?;
            }
            M::Movzx | M::Movsx | M::Movsxd => {
                let value = self.operand(instruction, 1, state, place)?;
                let value = Value {
                    kind: Kind::Plain,
                    ..value
                };
                self.write_operand(instruction, 0, state, value)?;
            }
            M::Lea => {
                let address = self.address(instruction, state);
                self.count(instruction, state, &[]);
                self.write_register(state, instruction.op0_register(), address);
            }
            M::Xchg => self.exchange(instruction, state, place)?,
            M::Cmpxchg => self.compare_exchange(instruction, state, place)?,
            _ if is_zeroing(instruction) => {
                self.write_register(state, instruction.op0_register(), Value::constant(0));
                state.set(FLAGS, Value::constant(0));
            }
            _ if is_conditional_move(instruction) => {
                let new = self.operand(instruction, 1, state, place)?;
                let old = self.operand(instruction, 0, state, place)?;
                let value = Value::made(instruction.code() as u64, &[old, new]);
                self.write_operand(instruction, 0, state, value)?;
            }
            _ if instruction.has_lock_prefix() => self.atomic(instruction, state, place)?,
            _ => self.general(instruction, state, place)?,
        }
        Ok(())
    }

    fn clock(&mut self, instruction: &Instruction, state: &mut State, place: u64) -> Result<()> {
        let number = self.read_number(place, place)?;
        self.facts.clock_reads |= 1 << number;
        self.facts.shared_reads |= 1 << number;
        let value = Value {
            reads: 1 << number,
            ..Value::same(place)
        };
        self.write_register(state, Register::RAX, value);
        self.write_register(state, Register::RDX, value);
        if instruction.mnemonic() == Mnemonic::Rdtscp {
            self.write_register(state, Register::RCX, Value::same(place));
        }
        Ok(())
    }

    /// Any instruction: what it writes depends on all that it reads.
    fn general(&mut self, instruction: &Instruction, state: &mut State, place: u64) -> Result<()> {
        let inputs = self.inputs(instruction, state, place)?;
        if instruction.code() == Code::Test_rm8_r8 && instruction.op0_kind() == OpKind::Memory {
            // Go looks in this way whether a pointer is nil: the processor would fault.
            self.facts.idle_reads |= inputs.iter().fold(0, |all, input| all | input.reads);
        }
        let mut made = Value::made(instruction.code() as u64, &inputs);
        let info = self.info.info(instruction).clone();
        let writes = |access| {
            use OpAccess as A;
            matches!(
                access,
                A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite
            )
        };
        let mut only_flags = true;
        if let Some(distance) = stack_distance(instruction, state, self) {
            made = distance;
        }
        for n in 0..instruction.op_count() {
            if writes(info.op_access(n)) {
                only_flags = false;
                self.write_operand(instruction, n, state, made)?;
            }
        }
        for used in info.used_registers() {
            if writes(used.access()) && location(used.register()).is_some() {
                only_flags = false;
                self.write_register(state, used.register(), made);
            }
        }
        if !only_flags {
            self.count(instruction, state, &inputs);
        }
        if instruction.rflags_modified() != 0 {
            state.set(FLAGS, made);
        }
        Ok(())
    }

    /// Notes when an operation does more than counting.
    fn count(&mut self, instruction: &Instruction, state: &State, inputs: &[Value]) {
        let of_address;
        let inputs = if instruction.mnemonic() == Mnemonic::Lea {
            of_address = [instruction.memory_base(), instruction.memory_index()]
                .into_iter()
                .filter(|r| location(*r).is_some())
                .map(|r| self.register(state, r))
                .collect::<Vec<_>>();
            &of_address
        } else {
            inputs
        };
        let carried = inputs.iter().fold(0, |all, input| all | input.carried);
        if carried == 0 {
            return;
        }
        let first = inputs.iter().find(|input| input.carried != 0);
        let own = self.facts.own_reads;
        let is_plain = |input: &Value| {
            Some(input.term) == first.map(|f| f.term)
                || input.carried == 0 && input.reads & !own == 0
        };
        let scales = instruction.mnemonic() == Mnemonic::Lea
            && instruction.memory_index_scale() > 1
            && instruction.memory_base() != Register::None;
        if !counts(instruction) || scales || !inputs.iter().all(is_plain) {
            self.facts.computed.insert(carried);
        }
    }

    /// Everything an instruction reads, its flags too.
    fn inputs(
        &mut self,
        instruction: &Instruction,
        state: &State,
        place: u64,
    ) -> Result<Vec<Value>> {
        let info = self.info.info(instruction).clone();
        let reads = |access| {
            use OpAccess as A;
            matches!(
                access,
                A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite
            )
        };
        let mut named = vec![instruction.memory_base(), instruction.memory_index()];
        let mut inputs = Vec::new();
        for n in 0..instruction.op_count() {
            if instruction.op_kind(n) == OpKind::Register {
                named.push(instruction.op_register(n));
            }
            if reads(info.op_access(n)) {
                inputs.push(self.operand(instruction, n, state, place)?);
            }
        }
        for used in info.used_registers() {
            if reads(used.access())
                && !named
                    .iter()
                    .any(|r| r.full_register() == used.register().full_register())
            {
                inputs.push(self.register(state, used.register()));
            }
        }
        if instruction.rflags_read() != 0 {
            inputs.push(state.get(FLAGS, &self.entry));
        }
        Ok(inputs)
    }

    /// `xchg` with memory: an attempt whose outcome is what was there.
    fn exchange(&mut self, instruction: &Instruction, state: &mut State, place: u64) -> Result<()> {
        let memory = (0..2).find(|&n| instruction.op_kind(n) == OpKind::Memory);
        let Some(memory) = memory else {
            let (a, b) = (instruction.op0_register(), instruction.op1_register());
            let (of_a, of_b) = (self.register(state, a), self.register(state, b));
            self.write_register(state, a, of_b);
            self.write_register(state, b, of_a);
            return Ok(());
        };
        let register = instruction.op_register(1 - memory);
        let new = self.register(state, register);
        let attempt = (Some(new), ANYTHING);
        let old = self.attempt(instruction, memory, attempt, state, place)?;
        self.write_register(state, register, old);
        Ok(())
    }

    fn compare_exchange(
        &mut self,
        instruction: &Instruction,
        state: &mut State,
        place: u64,
    ) -> Result<()> {
        let expected = self.register(state, Register::RAX);
        let new = self.operand(instruction, 1, state, place)?;
        if instruction.op0_kind() != OpKind::Memory {
            return Err(NotSpinning::Instruction);
        }
        let attempt = (Some(new), expected);
        let old = self.attempt(instruction, 0, attempt, state, place)?;
        state.set(FLAGS, Value::made(place, &[old, expected]));
        // Where it succeeds, rax keeps what was expected, which is what was there.
        self.write_register(state, Register::RAX, old);
        Ok(())
    }

    /// Any other locked operation.
    fn atomic(&mut self, instruction: &Instruction, state: &mut State, place: u64) -> Result<()> {
        use Mnemonic as M;
        let repeats = matches!(instruction.mnemonic(), M::Bts | M::Btr | M::Or | M::And);
        let operand = match instruction.op_count() {
            2 => self.operand(instruction, 1, state, place)?,
            _ => Value::constant(1),
        };
        if instruction.op0_kind() != OpKind::Memory || is_wide_exchange(instruction) {
            return Err(NotSpinning::Instruction);
        }
        let attempt = (repeats.then_some(operand), ANYTHING);
        let old = self.attempt(instruction, 0, attempt, state, place)?;
        state.set(FLAGS, Value::made(place, &[old, operand]));
        if instruction.mnemonic() == M::Xadd {
            self.write_operand(instruction, 1, state, old)?;
        }
        Ok(())
    }

    /// An atomic operation on the operand in memory; what was there.
    fn attempt(
        &mut self,
        instruction: &Instruction,
        operand: u32,
        (new, expected): (Option<Value>, Value),
        state: &mut State,
        place: u64,
    ) -> Result<Value> {
        match self.place(instruction, state)? {
            Place::Slot(slot) => {
                // Nobody else's, or a fence: an operation as any other.
                let old = self.operand(instruction, operand, state, place)?;
                state.set(slot, Value::made(place, &[old, new.unwrap_or(old)]));
                Ok(old)
            }
            Place::Thread(_) => Err(NotSpinning::Stores),
            Place::Memory(address) => {
                let old = self.read(address, place)?;
                self.facts.attempts.push(Attempt {
                    word: address.term,
                    site: self.site,
                    new,
                    expected,
                });
                self.decide(expected);
                if let Some(new) = new {
                    self.decide(new);
                }
                Ok(old)
            }
        }
    }

    /// What a value depends on decides what the loop does.
    pub fn decide(&mut self, value: Value) {
        self.facts.deciding_reads |= value.reads;
        self.facts.deciding_locations |= value.carried;
    }

    fn read(&mut self, address: Value, place: u64) -> Result<Value> {
        if matches!(address.kind, Kind::Constant(0..FIRST_MAPPED)) {
            // A way that compilers know is never taken.
            return Err(NotSpinning::Instruction);
        }
        let number = self.read_number(place, address.term)?;
        self.facts.shared_reads |= 1 << number;
        self.decide(address);
        self.facts.address_locations |= address.carried;
        Ok(Value {
            kind: Kind::Plain,
            reads: address.reads | 1 << number,
            carried: address.carried,
            term: mix(7, address.term),
        })
    }

    fn read_slot(&mut self, slot: Location, state: &State) -> Result<Value> {
        let value = state.get(slot, &self.entry);
        let is_untouched = value.term == self.entry.value(slot).term && value.carried == 0;
        if !is_untouched {
            return Ok(value);
        }
        // A slot that the loop never writes may be one that others were told of: a lock's node.
        let key = mix(8, u64::from(slot));
        let number = self.read_number(key, value.term)?;
        self.entry.slot_reads.insert(slot, number);
        self.facts.own_reads |= 1 << number;
        Ok(self.entry.value(slot))
    }

    fn operand(
        &mut self,
        instruction: &Instruction,
        n: u32,
        state: &State,
        place: u64,
    ) -> Result<Value> {
        match instruction.op_kind(n) {
            OpKind::Register => Ok(self.register(state, instruction.op_register(n))),
            OpKind::Memory => match self.place(instruction, state)? {
                Place::Slot(slot) => self.read_slot(slot, state),
                Place::Thread(address) => Ok(Value {
                    kind: Kind::Plain,
                    term: mix(9, address.term),
                    ..address
                }),
                Place::Memory(address) => self.read(address, place),
            },
            _ => Ok(Value::constant(
                instruction.try_immediate(n).unwrap_or_default() as i64,
            )),
        }
    }

    fn write_operand(
        &mut self,
        instruction: &Instruction,
        n: u32,
        state: &mut State,
        value: Value,
    ) -> Result<()> {
        match instruction.op_kind(n) {
            OpKind::Register => self.write_register(state, instruction.op_register(n), value),
            OpKind::Memory => match self.place(instruction, state)? {
                Place::Slot(slot) => state.set(slot, value),
                _ => return Err(NotSpinning::Stores),
            },
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, state: &mut State, value: Value) -> Result<()> {
        let Kind::Stack(base, distance) = self.register(state, Register::RSP).kind else {
            return Err(NotSpinning::Stores);
        };
        let top = distance.wrapping_sub(8);
        self.write_register(state, Register::RSP, Value::stack(base, top));
        let slot = self.entry.slot(base, top).ok_or(NotSpinning::TooLarge)?;
        state.set(slot, value);
        Ok(())
    }

    fn pop(&mut self, state: &mut State) -> Result<Value> {
        let Kind::Stack(base, distance) = self.register(state, Register::RSP).kind else {
            return Err(NotSpinning::Stores);
        };
        let slot = self
            .entry
            .slot(base, distance)
            .ok_or(NotSpinning::TooLarge)?;
        let value = self.read_slot(slot, state)?;
        self.write_register(
            state,
            Register::RSP,
            Value::stack(base, distance.wrapping_add(8)),
        );
        Ok(value)
    }

    fn place(&mut self, instruction: &Instruction, state: &State) -> Result<Place> {
        let address = self.address(instruction, state);
        if matches!(instruction.memory_segment(), Register::FS | Register::GS) {
            self.facts.address_locations |= address.carried;
            return Ok(Place::Thread(address));
        }
        match address.kind {
            Kind::Stack(base, distance) => {
                let slot = self.entry.slot(base, distance);
                slot.map(Place::Slot).ok_or(NotSpinning::TooLarge)
            }
            _ => Ok(Place::Memory(address)),
        }
    }

    /// The address of the operand in memory.
    fn address(&self, instruction: &Instruction, state: &State) -> Value {
        let displacement = instruction.memory_displacement64();
        if instruction.is_ip_rel_memory_operand() {
            return Value::constant(displacement as i64);
        }
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let parts: Vec<Value> = [base, index]
            .into_iter()
            .filter(|r| location(*r).is_some())
            .map(|r| self.register(state, r))
            .collect();
        match parts[..] {
            [] => Value::constant(displacement as i64),
            [only] if index == Register::None => shifted(only, displacement as i64),
            _ => {
                let scale = u64::from(instruction.memory_index_scale());
                Value::made(mix(displacement, scale), &parts)
            }
        }
    }

    fn register(&self, state: &State, register: Register) -> Value {
        match location(register) {
            Some(location) => state.get(location, &self.entry),
            None => Value::same(0),
        }
    }

    pub fn write_register(&mut self, state: &mut State, register: Register, value: Value) {
        if let Some(location) = location(register) {
            state.set(location, value);
        }
    }

    /// What a call (-8) and a return (8) do to the stack pointer.
    pub fn move_stack(&mut self, state: &mut State, distance: i64) {
        let moved = shifted(self.register(state, Register::RSP), distance);
        self.write_register(state, Register::RSP, moved);
    }
}

/// `value + distance`.
fn shifted(value: Value, distance: i64) -> Value {
    match value.kind {
        Kind::Stack(base, from) => Value::stack(base, from.wrapping_add(distance)),
        _ if distance == 0 => value,
        _ => Value {
            kind: Kind::Plain,
            term: mix(mix(10, value.term), distance as u64),
            ..value
        },
    }
}

/// `add` and `sub` of a constant to a stack address.
fn stack_distance(
    instruction: &Instruction,
    state: &State,
    machine: &Machine<'_>,
) -> Option<Value> {
    let is_immediate = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
    if instruction.op_count() != 2 || instruction.op0_kind() != OpKind::Register || !is_immediate {
        return None;
    }
    let value = machine.register(state, instruction.op0_register());
    let Kind::Stack(..) = value.kind else {
        return None;
    };
    let distance = instruction.try_immediate(1).ok()? as i64;
    match instruction.mnemonic() {
        Mnemonic::Add => Some(shifted(value, distance)),
        Mnemonic::Sub => Some(shifted(value, distance.wrapping_neg())),
        _ => None,
    }
}

/// The slot through which a call or jump goes.
fn slot_of(instruction: &Instruction) -> Result<Target> {
    let through_slot =
        instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand();
    if through_slot {
        Ok(Target::Slot(instruction.ip_rel_memory_address()))
    } else {
        Err(NotSpinning::Calls)
    }
}

/// `xor %r,%r` and `sub %r,%r`.
fn is_zeroing(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

fn is_conditional_move(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovne
            | M::Cmovno
            | M::Cmovnp
            | M::Cmovns
            | M::Cmovo
            | M::Cmovp
            | M::Cmovs
    )
}

/// Operations that a counter of turns, a backoff or an index of tries needs.
fn counts(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Add
            | M::Sub
            | M::Inc
            | M::Dec
            | M::Neg
            | M::Not
            | M::And
            | M::Lea
            | M::Cdqe
            | M::Cwde
            | M::Cdq
            | M::Cqo
            | M::Sbb
            | M::Adc
            | M::Shl
            | M::Sal
            | M::Shr
            | M::Sar
            | M::Shlx
            | M::Shrx
            | M::Sarx
            | M::Loop
            | M::Loope
            | M::Loopne
    ) || instruction.op_count() == 1 && instruction.rflags_read() != 0 // setcc
}

fn is_wide_exchange(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Cmpxchg16b | Mnemonic::Cmpxchg8b
    )
}

/// Instructions that no wait has.
fn is_no_wait(instruction: &Instruction) -> bool {
    let is_foreign =
        |n| instruction.op_kind(n) == OpKind::Register && !instruction.op_register(n).is_gpr();
    instruction.is_invalid()
        || instruction.is_privileged()
        || instruction.is_string_instruction()
        || instruction.has_rep_prefix()
            && instruction.mnemonic() != Mnemonic::Pause
            && instruction.mnemonic() != Mnemonic::Ret
        || (0..instruction.op_count()).any(is_foreign)
}

//! Jump tables of copied functions: which of them only the function's own jumps read.
//!
//! Two forms of compilers are known. `jmp *table(,index,8)` names a table of addresses, in programs at fixed
//! addresses. `lea table, base; movslq (base,index,4), distance; add base, distance; jmp *distance` has distances
//! from the table's begin; there the address of the table must be seen to go nowhere else, along every way
//! through the function. Then the copy of the function can have a copy of the table, whose entries lead into it.
//! Everything else leads back to the original, which is as right.
use super::body::Body;
use super::tables::{Table, Use};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is asked of the file.
pub(crate) trait File {
    /// The bytes from an image address on that nobody writes to.
    fn constant(&self, at: u64) -> Option<&[u8]>;
    /// Whether an image address is one of code.
    fn is_code(&self, at: u64) -> bool;
}

/// Entries of a table that are read at most: real ones have fewer than 10 000.
const MOST: usize = 1 << 14;
/// Entries that are copied at least where they could be some: what lies behind a table does no harm.
const LEAST: usize = 256;
/// Tables of a function whose ways are followed.
const TABLES: usize = 64;
/// Instructions between the read of a table and the jump.
const NEAR: usize = 8;

/// The tables that can be copied, not yet placed, and how many indirect jumps lead back to the original.
pub(crate) fn switches(body: &Body, file: &impl File) -> (Vec<Table>, usize) {
    let mut instructions = body.instructions.iter();
    if !instructions.any(|i| i.flow_control() == FlowControl::IndirectBranch) {
        return (Vec::new(), 0);
    }
    let (mut tables, left) = absolute(body, file);
    let (relative, more) = relative(body, file);
    tables.extend(relative);
    (tables, left + more)
}

/// Tables of addresses that a jump itself names.
fn absolute(body: &Body, file: &impl File) -> (Vec<Table>, usize) {
    let mut tables: BTreeMap<u64, Table> = BTreeMap::new();
    let mut left = 0;
    for (number, i) in body.instructions.iter().enumerate() {
        // With another base it may be a table, too, or a call of one of an object's functions.
        let by_index = i.code() == Code::Jmp_rm64
            && i.op0_kind() == OpKind::Memory
            && i.memory_index() != Register::None;
        left += usize::from(by_index);
        let named = by_index
            && i.memory_base() == Register::None
            && i.memory_index_scale() == 8
            && i.segment_prefix() == Register::None;
        let at = i.memory_displacement64();
        let Some(bytes) = file.constant(at).filter(|_| named) else {
            continue;
        };
        let (words, _) = bytes.as_chunks();
        let all = words.iter().take(MOST).map(|w| u64::from_le_bytes(*w));
        let targets: Vec<u64> = all.take_while(|&t| file.is_code(t)).collect();
        if targets.is_empty() || targets.len() == MOST {
            continue;
        }
        left -= 1;
        let table = tables.entry(at).or_insert(Table {
            function: body.at,
            original: at,
            at: 0,
            targets,
            absolute: true,
            uses: Vec::new(),
        });
        table.uses.push(use_of(body, number, true));
    }
    (tables.into_values().collect(), left)
}

/// Where an instruction has its displacement.
fn use_of(body: &Body, number: usize, absolute: bool) -> Use {
    let i = &body.instructions[number];
    let from = (i.ip() - body.at) as usize;
    let bytes = &body.bytes[from..from + i.len()];
    let mut decoder = Decoder::with_ip(64, bytes, i.ip(), DecoderOptions::NONE);
    let again = decoder.decode();
    Use {
        at: i.ip(),
        next: i.next_ip(),
        field: decoder.get_constant_offsets(&again).displacement_offset(),
        absolute,
    }
}

/// A jump by a table of distances: indices of the read, of the addition and of the jump, and the table's register.
struct Switch {
    read: usize,
    add: usize,
    base: Register,
}

/// Tables of distances whose address goes nowhere but to such jumps.
fn relative(body: &Body, file: &impl File) -> (Vec<Table>, usize) {
    let mut loads: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (number, i) in body.instructions.iter().enumerate() {
        if i.code() == Code::Lea_r64_m && i.is_ip_rel_memory_operand() {
            loads
                .entry(i.ip_rel_memory_address())
                .or_default()
                .push(number);
        }
    }
    let starts: Vec<u64> = loads.keys().copied().collect();
    let targets = |at: u64| targets(at, &starts, file);
    loads.retain(|&at, _| !targets(at).is_empty());
    let entered: BTreeSet<u64> = loads.keys().flat_map(|&at| targets(at)).collect();
    let switches = find(body, &entered);
    if switches.is_empty() || loads.len() > TABLES {
        return (Vec::new(), switches.len());
    }
    let flow = Flow::of(body, &loads, &entered);
    let elsewhere = flow.elsewhere(body, &switches);
    let mut resolved = 0;
    let mut used = 0;
    for switch in &switches {
        let held = flow.before[switch.read][switch.base.number()];
        used |= held;
        resolved += usize::from(held != 0 && held & elsewhere == 0);
    }
    let tables = loads.into_iter().enumerate();
    let proven = tables.filter(|(bit, _)| (used & !elsewhere) >> bit & 1 != 0);
    let tables = proven.map(|(_, (at, loads))| Table {
        function: body.at,
        original: at,
        at: 0,
        targets: targets(at),
        absolute: false,
        uses: loads.iter().map(|&l| use_of(body, l, false)).collect(),
    });
    (tables.collect(), switches.len() - resolved)
}

/// Where the entries of a table lead; none when it is not one. Entries behind its end may be among them.
fn targets(at: u64, starts: &[u64], file: &impl File) -> Vec<u64> {
    let next = starts.get(starts.partition_point(|&s| s <= at));
    let room = next
        .map_or(MOST, |next| ((next - at) / 4) as usize)
        .max(LEAST);
    let (words, _) = file.constant(at).unwrap_or_default().as_chunks();
    let entry = |w: &[u8; 4]| at.wrapping_add_signed(i32::from_le_bytes(*w).into());
    let all = words.iter().take(room.min(MOST)).map(entry);
    all.take_while(|&t| file.is_code(t)).collect()
}

/// All jumps of that form, whose parts are together and entered only at the first.
fn find(body: &Body, entered: &BTreeSet<u64>) -> Vec<Switch> {
    let code = &body.instructions;
    let inside = code.iter().filter_map(|i| body.inside(i));
    let entered: BTreeSet<u64> = entered.iter().copied().chain(inside).collect();
    let mut found = Vec::new();
    for (jump, i) in code.iter().enumerate() {
        if i.code() == Code::Jmp_rm64 && i.op0_kind() == OpKind::Register {
            let switch = switch_at(code, jump);
            let alone = |s: &Switch| {
                let within = code[s.read].next_ip()..=i.ip();
                entered.range(within).next().is_none()
            };
            found.extend(switch.filter(alone));
        }
    }
    found
}

fn switch_at(code: &[Instruction], jump: usize) -> Option<Switch> {
    let from = jump.saturating_sub(NEAR);
    let sum = code[jump].op0_register();
    let add = last_write(code, from..jump, sum)?;
    let i = &code[add];
    if i.mnemonic() != Mnemonic::Add || i.op0_register() != sum || i.op1_kind() != OpKind::Register
    {
        return None;
    }
    let other = i.op1_register();
    // Either register may be the table's; the other one holds the distance, which was read last.
    for (distance, base) in [(sum, other), (other, sum)] {
        let Some(read) = last_write(code, from..add, distance) else {
            continue;
        };
        let r = &code[read];
        let is_read = r.code() == Code::Movsxd_r64_rm32
            && r.op1_kind() == OpKind::Memory
            && r.memory_base() == base
            && !matches!(r.memory_index(), Register::None)
            && r.memory_index() != base
            && r.memory_index_scale() == 4
            && r.memory_displacement64() == 0
            && r.segment_prefix() == Register::None;
        let keeps = distance != base && last_write(code, read..add, base).is_none();
        if is_read && keeps {
            return Some(Switch { read, add, base });
        }
    }
    None
}

/// The last instruction of a range without branches that writes to a register.
fn last_write(
    code: &[Instruction],
    range: std::ops::Range<usize>,
    register: Register,
) -> Option<usize> {
    let mut uses = InstructionInfoFactory::new();
    for number in range.rev() {
        let i = &code[number];
        if i.flow_control() != FlowControl::Next {
            return None;
        }
        let mut used = uses.info(i).used_registers().iter();
        if used.any(|u| u.register().full_register() == register && writes(u.access())) {
            return Some(number);
        }
    }
    None
}

fn writes(access: OpAccess) -> bool {
    !matches!(
        access,
        OpAccess::None | OpAccess::NoMemAccess | OpAccess::Read | OpAccess::CondRead
    )
}

fn reads(access: OpAccess) -> bool {
    !matches!(
        access,
        OpAccess::None | OpAccess::NoMemAccess | OpAccess::Write | OpAccess::CondWrite
    )
}

/// For each general register the tables whose address it may hold, a bit each.
type Held = [u64; 16];

/// What registers may hold before each instruction, along every way through the function.
struct Flow {
    before: Vec<Held>,
}

/// Whether it is a general register of 64 bits.
fn is_general(register: Register) -> bool {
    register.is_gpr64()
}

/// A function may leave anything in these; what they held before, its caller does not ask for.
const CALLER_SAVED: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

impl Flow {
    fn of(body: &Body, loads: &BTreeMap<u64, Vec<usize>>, entered: &BTreeSet<u64>) -> Self {
        let code = &body.instructions;
        let mut gives = vec![0u64; code.len()];
        for (bit, numbers) in loads.values().enumerate() {
            for &number in numbers {
                gives[number] |= 1 << bit;
            }
        }
        let entered: Vec<usize> = entered.iter().filter_map(|&t| body.index_of(t)).collect();
        let mut flow = Flow {
            before: vec![[0; 16]; code.len()],
        };
        let mut seen = vec![false; code.len()];
        let mut pending = vec![0];
        seen[0] = true;
        flow.follow(body, (&gives, &entered), &mut seen, &mut pending);
        // What is reached otherwise, as landing pads are, may find whatever there was anywhere.
        let mut any = [0; 16];
        for held in &flow.before {
            any.iter_mut()
                .zip(held)
                .for_each(|(any, held)| *any |= held);
        }
        let unseen: Vec<usize> = (0..code.len()).filter(|&n| !seen[n]).collect();
        for number in unseen {
            flow.before[number] = any;
            seen[number] = true;
            pending.push(number);
        }
        flow.follow(body, (&gives, &entered), &mut seen, &mut pending);
        flow
    }

    fn follow(
        &mut self,
        body: &Body,
        (gives, entered): (&[u64], &[usize]),
        seen: &mut [bool],
        pending: &mut Vec<usize>,
    ) {
        let mut uses = InstructionInfoFactory::new();
        while let Some(number) = pending.pop() {
            let i = &body.instructions[number];
            let after = after(&mut uses, i, gives[number], &self.before[number]);
            let mut next: Vec<usize> = Vec::new();
            next.extend(body.inside(i).and_then(|t| body.index_of(t)));
            match i.flow_control() {
                FlowControl::IndirectBranch => next.extend(entered),
                FlowControl::UnconditionalBranch | FlowControl::Return => {}
                _ => next.extend((number + 1 < body.instructions.len()).then_some(number + 1)),
            }
            for next in next {
                let mut grown = !seen[next];
                seen[next] = true;
                for (held, more) in self.before[next].iter_mut().zip(&after) {
                    grown |= *held | more != *held;
                    *held |= more;
                }
                if grown {
                    pending.push(next);
                }
            }
        }
    }

    /// The tables whose address is used for anything but switches.
    fn elsewhere(&self, body: &Body, switches: &[Switch]) -> u64 {
        let mut uses = InstructionInfoFactory::new();
        let mut elsewhere = 0;
        for (number, i) in body.instructions.iter().enumerate() {
            let held = &self.before[number];
            if held.iter().all(|&h| h == 0) || copied(i).is_some() {
                continue;
            }
            let allowed = |register: Register| {
                let mut own = switches.iter();
                own.any(|s| (s.read == number || s.add == number) && s.base == register)
            };
            for used in uses.info(i).used_registers() {
                let register = used.register().full_register();
                if is_general(register) && reads(used.access()) && !allowed(register) {
                    elsewhere |= held[register.number()];
                }
            }
        }
        elsewhere
    }
}

/// The registers of a plain copy: from, to.
fn copied(i: &Instruction) -> Option<(Register, Register)> {
    let is_copy = matches!(i.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
        && i.op0_kind() == OpKind::Register
        && i.op1_kind() == OpKind::Register;
    is_copy.then(|| (i.op1_register(), i.op0_register()))
}

fn after(uses: &mut InstructionInfoFactory, i: &Instruction, gives: u64, before: &Held) -> Held {
    let mut after = *before;
    if let Some((from, to)) = copied(i) {
        after[to.number()] = before[from.number()];
        return after;
    }
    if matches!(
        i.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    ) {
        for register in CALLER_SAVED {
            after[register.number()] = 0;
        }
        return after;
    }
    for used in uses.info(i).used_registers() {
        let register = used.register().full_register();
        let surely = matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite);
        if is_general(register) && surely {
            after[register.number()] = 0;
        }
    }
    if gives != 0 {
        after[i.op0_register().number()] = gives;
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function at 0x1000, constants at 0x2000.
    struct Made {
        constants: Vec<u8>,
    }

    impl File for Made {
        fn constant(&self, at: u64) -> Option<&[u8]> {
            self.constants.get(at.checked_sub(0x2000)? as usize..)
        }

        fn is_code(&self, at: u64) -> bool {
            (0x1000..0x2000).contains(&at)
        }
    }

    /// `lea`, `movslq`, `add`, `jmp`, and what follows; the table leads to the two instructions behind the jump.
    fn found(tail: &[u8]) -> (usize, usize) {
        let head = [
            0x48, 0x8d, 0x15, 0xf9, 0x0f, 0, 0, // lea rdx, [rip + 0xff9] ; 0x2000
            0x48, 0x63, 0x04, 0x82, // movsxd rax, [rdx + rax*4]
            0x48, 0x01, 0xd0, // add rax, rdx
            0x3e, 0xff, 0xe0, // notrack jmp rax
            0x90, // 0x1011
        ];
        let code = [&head[..], tail].concat();
        let body = Body::read(0x1000, &code).expect("it can be copied");
        let distance = |to: i32| (to - 0x2000).to_le_bytes();
        let constants = [distance(0x1011), distance(0x1012), [0; 4]].concat();
        let (tables, back) = switches(&body, &Made { constants });
        assert!(
            tables
                .iter()
                .all(|t| t.original == 0x2000 && t.targets[..2] == [0x1011, 0x1012])
        );
        assert!(
            tables
                .iter()
                .all(|t| t.uses.len() == 1 && t.uses[0].field == 3)
        );
        (tables.len(), back)
    }

    #[test]
    fn a_table_counts_when_its_address_goes_nowhere_else() {
        assert_eq!(found(&[0xc3]), (1, 0));
        // Its register is written to: what is read then is another value.
        assert_eq!(found(&[0x31, 0xd2, 0x89, 0x17, 0xc3]), (1, 0)); // xor edx, edx; mov [rdi], edx; ret
        // A copy that nobody reads.
        assert_eq!(found(&[0x48, 0x89, 0xd1, 0xc3]), (1, 0)); // mov rcx, rdx; ret
        // A call leaves nothing in rdx.
        assert_eq!(found(&[0xff, 0xd3, 0x48, 0x89, 0x17, 0xc3]), (1, 0)); // call rbx; mov [rdi], rdx
    }

    #[test]
    fn any_other_use_leaves_the_table_alone() {
        let uses: [&[u8]; 6] = [
            &[0x48, 0x89, 0x17, 0xc3],             // mov [rdi], rdx
            &[0x52, 0xc3],                         // push rdx
            &[0x8b, 0x02, 0xc3],                   // mov eax, [rdx]
            &[0x48, 0x89, 0xd1, 0x8b, 0x01, 0xc3], // mov rcx, rdx; mov eax, [rcx]
            &[0x48, 0x8d, 0x42, 0x08, 0xc3],       // lea rax, [rdx + 8]
            &[0x48, 0x63, 0x44, 0x82, 0x04, 0xc3], // movsxd rax, [rdx + rax*4 + 4]
        ];
        for tail in uses {
            assert_eq!(found(tail), (0, 1), "{tail:x?}");
        }
    }
}

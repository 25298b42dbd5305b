//! Steps with the compact rows alone: what the in-kernel unwinder does, in Rust.
//!
//! [`step_row`] is the semantics of a row; [`walk`] that of a whole stack. The eBPF program follows
//! both to the letter, so that a stack walked here and there is the same frame for frame. Only the
//! pc, sp and rbp of a caller are known; of the innermost frame, and of one that a signal
//! interrupted, all registers.
use crate::step::Registers;
use crate::unwind::UnwindTable;
use dwell_abi::unwind::*;

/// DWARF numbers of the registers in `gregset_t`, in its order: r8 … r15, rdi, rsi, rbp, rbx, rdx,
/// rax, rcx, rsp, rip.
const GREGS: [u16; Registers::COUNT] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
/// Offset of `gregset_t` in the `ucontext_t` at the stack pointer of a signal trampoline.
const GREGS_OFFSET: u64 = 40;

/// Largest distance from sp to a frame pointer that is believed where only frame pointers lead on.
/// The largest real frames are some hundred KiB; a stack is 8 MiB.
pub const MAX_FP_DISTANCE: u64 = 8 << 20;

/// The registers of a frame that the in-kernel unwinder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreRegs {
    /// Actual program counter; a return address when `is_return_address`.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// rbp, whether or not it is a frame pointer here.
    pub bp: u64,
    /// The registers of a frame that made no call: the innermost one, or one that a signal
    /// interrupted. Nothing is known of those of others.
    pub leaf: Registers,
    /// The pc is the address after a call: the row to use is that of `pc - 1`.
    pub is_return_address: bool,
}

impl CoreRegs {
    /// The address whose row holds.
    pub fn lookup_pc(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return_address))
    }
}

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Actual address; of the instruction after the call when `is_return_address`. Of a frame of HotSpot's interpreter a word that
    /// [`dwell_abi::events::interpreted`] takes apart.
    pub pc: u64,
    /// True for a caller; false for the innermost frame, for a signal trampoline (nobody called it)
    /// and for a frame interrupted by a signal.
    pub is_return_address: bool,
}

/// Takes one step by one row: the caller's registers, or why there is no caller.
///
/// `read` reads 8 bytes of the stack. A return address of 0 ends the stack as
/// [`StackEnd::Complete`]: thread starts without call frame information push one.
pub fn step_row(
    row: &Row,
    rules: &[Rule],
    regs: &CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<CoreRegs, StackEnd> {
    let (sp, bp) = (regs.sp, regs.bp);
    let by8 = |n: i16| (i64::from(n) * 8) as u64;
    match row.kind {
        KIND_CLONE if regs.leaf.get(Registers::RAX) == Some(0) => Err(StackEnd::Complete),
        KIND_SP | KIND_CLONE => by_cfa(sp.wrapping_add(by8(row.cfa_off8)), row.bp_off8, regs, read),
        KIND_BP => by_cfa(bp.wrapping_add(by8(row.cfa_off8)), row.bp_off8, regs, read),
        KIND_PLT => {
            let pushed = regs.lookup_pc() & 15 >= u64::from(row.cfa_off8 as u16);
            by_cfa(sp.wrapping_add(if pushed { 16 } else { 8 }), 0, regs, read)
        }
        KIND_RULE => {
            let rule = rules
                .get(usize::from(row.cfa_off8 as u16))
                .ok_or(StackEnd::Unsupported)?;
            by_rule(rule, regs, read)
        }
        KIND_RA_RDI => {
            let pc = regs.leaf.get(Registers::RDI).ok_or(StackEnd::Unsupported)?;
            caller(pc, sp.wrapping_add(by8(row.cfa_off8)), bp)
        }
        KIND_SIGNAL => interrupted(sp, read),
        KIND_FP if bp == 0 => Err(StackEnd::Complete),
        KIND_FP => by_frame_pointer(regs, read).map_err(|_| StackEnd::BadFramePointer),
        KIND_INTERPRETED => interpreted(regs, read),
        KIND_NONE => Err(StackEnd::NoRow),
        KIND_END => Err(StackEnd::Complete),
        _ => Err(StackEnd::Unsupported),
    }
}

/// The return address is at CFA - 8, the caller's rbp at CFA + 8·`bp_off8` unless that is 0.
fn by_cfa(
    cfa: u64,
    bp_off8: i8,
    regs: &CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<CoreRegs, StackEnd> {
    let bp = match bp_off8 {
        0 => regs.bp,
        n => read(cfa.wrapping_add((i64::from(n) * 8) as u64)).ok_or(StackEnd::ReadFault)?,
    };
    by_known_bp(cfa, bp, regs.sp, read)
}

fn by_rule(
    rule: &Rule,
    regs: &CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<CoreRegs, StackEnd> {
    let base = match rule.cfa_reg {
        REG_SP => regs.sp,
        REG_BP => regs.bp,
        register => {
            let number = register.checked_sub(REG_LEAF).map(u16::from);
            number
                .and_then(|n| regs.leaf.get(n))
                .ok_or(StackEnd::Unsupported)?
        }
    };
    let mut cfa = base.wrapping_add(i64::from(rule.cfa_off) as u64);
    if rule.cfa_deref == 1 {
        cfa = read(cfa)
            .ok_or(StackEnd::ReadFault)?
            .wrapping_add(8 * u64::from(rule.cfa_add8));
    }
    let at = match rule.bp_kind {
        BP_SAME => return by_known_bp(cfa, regs.bp, regs.sp, read),
        BP_AT_CFA => cfa,
        BP_AT_BP => regs.bp,
        _ => return Err(StackEnd::Unsupported),
    };
    let bp = read(at.wrapping_add(i64::from(rule.bp_off) as u64)).ok_or(StackEnd::ReadFault)?;
    by_known_bp(cfa, bp, regs.sp, read)
}

fn by_known_bp(
    cfa: u64,
    bp: u64,
    sp: u64,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<CoreRegs, StackEnd> {
    // A caller's frame is above: the return address at CFA - 8 is at or above sp.
    if cfa <= sp {
        return Err(StackEnd::Loop);
    }
    caller(
        read(cfa.wrapping_sub(8)).ok_or(StackEnd::ReadFault)?,
        cfa,
        bp,
    )
}

fn caller(pc: u64, sp: u64, bp: u64) -> Result<CoreRegs, StackEnd> {
    if pc == 0 {
        return Err(StackEnd::Complete);
    }
    Ok(CoreRegs {
        pc,
        sp,
        bp,
        leaf: Registers::default(),
        is_return_address: true,
    })
}

/// The kernel left everything in a `ucontext_t` at the trampoline's stack pointer. The handler may
/// have run on another stack, so sp may go either way.
fn interrupted(sp: u64, read: &mut impl FnMut(u64) -> Option<u64>) -> Result<CoreRegs, StackEnd> {
    let mut values = [0; Registers::COUNT];
    for (register, offset) in GREGS.into_iter().zip((GREGS_OFFSET..).step_by(8)) {
        let value = read(sp.wrapping_add(offset)).ok_or(StackEnd::ReadFault)?;
        values[usize::from(register)] = value;
    }
    let [pc, sp, bp] =
        [Registers::RIP, Registers::RSP, Registers::RBP].map(|r| values[usize::from(r)]);
    Ok(CoreRegs {
        pc,
        sp,
        bp,
        leaf: Registers::from_dwarf_order(values),
        is_return_address: false,
    })
}

/// A step by frame pointer alone: CFA = bp + 16, the caller's rbp is *bp. Refused unless rbp is
/// aligned, at or above sp, and not further than [`MAX_FP_DISTANCE`].
pub(crate) fn by_frame_pointer(
    regs: &CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<CoreRegs, StackEnd> {
    let (sp, bp) = (regs.sp, regs.bp);
    if !is_frame_pointer(sp, bp) {
        return Err(StackEnd::BadFramePointer);
    }
    let caller_bp = read(bp).ok_or(StackEnd::ReadFault)?;
    let pc = read(bp.wrapping_add(8)).ok_or(StackEnd::ReadFault)?;
    caller(pc, bp.wrapping_add(16), caller_bp)
}

/// Whether rbp may be a frame pointer.
fn is_frame_pointer(sp: u64, bp: u64) -> bool {
    bp >= sp && bp - sp <= MAX_FP_DISTANCE && bp.is_multiple_of(8)
}

/// Out of a frame of HotSpot's interpreter, which keeps its caller's sp: that of a compiled one is not where its frame ends.
fn interpreted(
    regs: &CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<CoreRegs, StackEnd> {
    if !is_frame_pointer(regs.sp, regs.bp) {
        return Err(StackEnd::BadFramePointer);
    }
    let mut word = |at: u64| read(at).ok_or(StackEnd::ReadFault);
    let sp = word(regs.bp.wrapping_sub(8))?;
    let pc = word(regs.bp.wrapping_add(8))?;
    let bp = word(regs.bp)?;
    if sp <= regs.sp {
        return Err(StackEnd::Loop);
    }
    caller(pc, sp, bp)
}

/// The method of a frame of HotSpot's interpreter, and where its next bytecode may be: a register has it of the innermost frame,
/// the frame of all that made a call.
pub(crate) fn interpreted_method(
    regs: &CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Option<(u64, [Option<u64>; 2])> {
    if !is_frame_pointer(regs.sp, regs.bp) {
        return None;
    }
    let method = read(regs.bp.wrapping_sub(24))?;
    let bytecode = read(regs.bp.wrapping_sub(64));
    Some((method, [regs.leaf.get(Registers::R13), bytecode]))
}

/// A file mapped into a process, with its rows.
#[derive(Clone, Copy, Debug)]
pub struct TableModule<'a> {
    /// First actual address of its executable mapping.
    pub start: u64,
    /// First actual address past its end.
    pub end: u64,
    /// Actual minus stated address (wrapping).
    pub bias: u64,
    /// Its rows; none for memory without a file (JIT), where only frame pointers lead on.
    pub table: Option<&'a UnwindTable>,
}

impl TableModule<'_> {
    fn row(&self, regs: &CoreRegs, read: &mut impl FnMut(u64) -> Option<u64>) -> Row {
        const NONE: Row = Row {
            pc: 0,
            cfa_off8: 0,
            kind: KIND_NONE,
            bp_off8: 0,
        };
        let row = match self.table {
            Some(table) => table.lookup(regs.lookup_pc().wrapping_sub(self.bias)),
            None => trampoline_row(regs, read),
        };
        row.unwrap_or(NONE)
    }

    fn rules(&self) -> &[Rule] {
        self.table.map_or(&[], |table| &table.rules)
    }
}

/// `add $8,%rsp; ret`: what CPython's perf trampoline does after its call.
const TRAMPOLINE_TAIL: u64 = 0xc3_08c4_8348;

/// The row of a return address in code without unwind information: CPython's perf trampoline keeps
/// no frame pointer, but is known by its code.
pub(crate) fn trampoline_row(
    regs: &CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Option<Row> {
    let is_trampoline =
        regs.is_return_address && read(regs.pc)? & 0xff_ffff_ffff == TRAMPOLINE_TAIL;
    is_trampoline.then_some(Row {
        pc: 0,
        cfa_off8: 2,
        kind: KIND_SP,
        bp_off8: 0,
    })
}

/// Walks a stack from `regs` outwards, appending at most `max_frames` frames (innermost first),
/// and says why it ended. `modules` are sorted by `start` and disjoint.
///
/// Where no row holds (`KIND_NONE`) a frame pointer is tried: believed only when the return address
/// it leads to is executable. Failing that, the stack ends as [`StackEnd::NoRow`], or as
/// [`StackEnd::BadFramePointer`] when a frame pointer had led here already.
///
/// `read` reads 8 bytes of memory: of the stack, and of code that has no table.
pub fn walk(
    modules: &[TableModule<'_>],
    mut regs: CoreRegs,
    read: &mut impl FnMut(u64) -> Option<u64>,
    max_frames: usize,
    frames: &mut Vec<Frame>,
) -> StackEnd {
    let mut by_fp = false;
    for _ in 0..max_frames {
        frames.push(Frame {
            pc: regs.pc,
            is_return_address: regs.is_return_address,
        });
        let pc = regs.lookup_pc();
        let Some(module) = module_at(modules, pc) else {
            return StackEnd::NoMapping;
        };
        let row = module.row(&regs, read);
        if row.kind == KIND_SIGNAL {
            name_trampoline(frames);
        }
        let next = if row.kind == KIND_NONE {
            guess(modules, &regs, by_fp, read)
        } else {
            step_row(&row, module.rules(), &regs, read)
        };
        by_fp = row.kind == KIND_NONE;
        match next {
            Ok(caller) => regs = caller,
            Err(end) => return end,
        }
    }
    StackEnd::TooDeep
}

/// The kernel made the trampoline's address the handler's return address, but nobody called it: its
/// row begins one byte early, and its frame's pc is the very instruction.
pub(crate) fn name_trampoline(frames: &mut [Frame]) {
    if let Some(frame) = frames.last_mut() {
        frame.is_return_address = false;
    }
}

/// Steps by frame pointer where no unwind information holds.
fn guess(
    modules: &[TableModule<'_>],
    regs: &CoreRegs,
    by_fp: bool,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<CoreRegs, StackEnd> {
    by_frame_pointer(regs, read)
        .ok()
        .filter(|caller| module_at(modules, caller.lookup_pc()).is_some())
        .ok_or(if by_fp {
            StackEnd::BadFramePointer
        } else {
            StackEnd::NoRow
        })
}

fn module_at<'m, 'a>(modules: &'m [TableModule<'a>], actual: u64) -> Option<&'m TableModule<'a>> {
    let after = modules.partition_point(|m| m.start <= actual);
    modules[..after].last().filter(|m| actual < m.end)
}

//! The instructions that a borrowed thread runs: an errand of ours, and the way back. Pure: registers in,
//! bytes out.
//!
//! No instruction here changes a flag, and none but the calls touches memory, except to leave a mark in what
//! was mapped: the thread may stand anywhere, above a red zone that is in use.
use libc::user_regs_struct;
use std::ops::Range;

/// A system call and its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub number: i64,
    pub arguments: [u64; 6],
}

impl Call {
    pub fn unmap(address: u64, len: u64) -> Call {
        Call::of_range(libc::SYS_munmap, address..address + len, 0)
    }

    fn of_range(number: i64, range: Range<u64>, third: i32) -> Call {
        let len = range.end - range.start;
        Call {
            number,
            arguments: [range.start, len, third as u64, 0, 0, 0],
        }
    }
}

/// What a borrowed thread does for us.
#[derive(Clone, Copy, Debug)]
pub(super) enum Errand<'r> {
    /// One call, whatever it answers.
    Call(Call),
    /// Maps memory.
    Map(&'r Room),
}

/// Memory to be mapped: a range, taken as a whole first, so that nothing else can come into it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub address: u64,
    pub len: u64,
    /// What of it is shared with us; all else is private.
    pub shared: Vec<Shared>,
    /// Who may do what where (`PROT_READ` and others).
    pub protections: Vec<(Range<u64>, i32)>,
    /// What children that the process forks find zeroed.
    pub wiped: Range<u64>,
    /// Where in it the thread leaves which word when all of it is there.
    pub mark: (u64, u64),
}

/// A part of it that is shared.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub range: Range<u64>,
    /// The System V segment that it is, if it is one, and whether the process may write to it.
    pub segment: Option<(i32, bool)>,
}

impl Room {
    pub fn range(&self) -> Range<u64> {
        self.address..self.address + self.len
    }

    /// Takes the range, unless something is there.
    fn take(&self) -> Call {
        map(&self.range(), libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE)
    }

    /// Makes of it what it is to be; each call with what it answers if all is well.
    ///
    /// A process may have all that it maps locked in memory (mlockall), which would use it at once. So nobody may touch
    /// anything until it is said not to be locked.
    fn make(&self) -> Vec<(Call, u64)> {
        let share = |s: &Shared| (s.map(), s.range.start);
        let mut calls: Vec<_> = self.shared.iter().map(share).collect();
        let mut add = |call: Call| calls.push((call, 0));
        add(Call::of_range(libc::SYS_munlock, self.range(), 0));
        for (range, protection) in &self.protections {
            add(Call::of_range(
                libc::SYS_mprotect,
                range.clone(),
                *protection,
            ));
        }
        if !self.wiped.is_empty() {
            add(Call::of_range(
                libc::SYS_madvise,
                self.wiped.clone(),
                libc::MADV_WIPEONFORK,
            ));
        }
        calls
    }
}

impl Shared {
    fn map(&self) -> Call {
        let Some((id, is_writable)) = self.segment else {
            return map(&self.range, libc::MAP_SHARED | libc::MAP_FIXED);
        };
        let access = if is_writable { 0 } else { libc::SHM_RDONLY };
        let flags = (libc::SHM_REMAP | access) as u64;
        Call {
            number: libc::SYS_shmat,
            arguments: [id as u64, self.range.start, flags, 0, 0, 0],
        }
    }
}

/// Maps a range that nobody may touch yet.
fn map(range: &Range<u64>, how: i32) -> Call {
    // What is never touched shall not count as used.
    let flags = how | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let mut call = Call::of_range(libc::SYS_mmap, range.clone(), libc::PROT_NONE);
    call.arguments[3] = flags as u64;
    call.arguments[4] = u64::MAX;
    call
}

/// Numbers of the registers in instructions.
const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;
const RSI: u8 = 6;
const RDI: u8 = 7;
const R8: u8 = 8;
const R9: u8 = 9;
const R10: u8 = 10;
const R11: u8 = 11;
const REGISTERS: usize = 16;
/// Those that errands change.
const CHANGED: [u8; 10] = [RAX, RBX, RDI, RSI, RDX, R10, R8, R9, RCX, R11];

/// Where a thread goes on, and with which registers of those that are changed here.
pub(super) struct Resumption {
    pc: u64,
    /// Of [`CHANGED`].
    registers: [u64; CHANGED.len()],
}

impl Resumption {
    /// That of a thread with these registers.
    pub fn of(r: &user_regs_struct) -> Resumption {
        let (pc, rax) = resumption(r);
        let registers = [
            rax, r.rbx, r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9, r.rcx, r.r11,
        ];
        Resumption { pc, registers }
    }
}

/// Where the thread goes on, and with which rax: what the kernel does with an interrupted call.
fn resumption(registers: &user_regs_struct) -> (u64, u64) {
    const SYSCALL_LEN: u64 = 2;
    let again = registers.rip.wrapping_sub(SYSCALL_LEN);
    let in_call = registers.orig_rax as i64 >= 0;
    match registers.rax as i64 {
        // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND
        -514..=-512 if in_call => (again, registers.orig_rax),
        // ERESTART_RESTARTBLOCK
        -516 if in_call => (again, libc::SYS_restart_syscall as u64),
        _ => (registers.rip, registers.rax),
    }
}

/// The registers of a thread that is back where it was.
pub(super) fn resumed(registers: &user_regs_struct) -> user_regs_struct {
    let (rip, rax) = resumption(registers);
    user_regs_struct {
        rip,
        rax,
        // The call begins anew by itself.
        orig_rax: u64::MAX,
        ..*registers
    }
}

/// What a borrowed thread runs.
pub(super) struct Detour {
    pub code: Vec<u8>,
    /// Offset behind the call that takes the mask back.
    pub unmasked: usize,
}

impl Detour {
    /// The instructions at `at` that run the errand, take `mask` for the signal mask, and go back.
    pub fn new(errand: &Errand, back: &Resumption, mask: u64, at: u64) -> Detour {
        // The mask comes first, where its address is known, and is jumped over.
        const MASK_BYTES: u64 = 8;
        let take_mask = Call {
            number: libc::SYS_rt_sigprocmask,
            arguments: [libc::SIG_SETMASK as u64, at + 2, 0, MASK_BYTES, 0, 0],
        };
        let mut code = Code::default();
        code.bytes.extend([0xeb, MASK_BYTES as u8]); // jmp over it
        code.bytes.extend(mask.to_le_bytes());
        match errand {
            Errand::Call(call) => code.call(call),
            Errand::Map(room) => code.map(room),
        }
        code.call(&take_mask);
        let unmasked = code.bytes.len();
        code.forget();
        for (register, value) in CHANGED.into_iter().zip(back.registers) {
            code.load(register, value);
        }
        code.bytes.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp *0(%rip)
        code.bytes.extend(back.pc.to_le_bytes());
        Detour {
            code: code.bytes,
            unmasked,
        }
    }

    /// Bytes that the instructions of an errand cannot exceed.
    pub fn longest(errand: &Errand) -> usize {
        let of_long_values = Resumption {
            pc: 0,
            registers: [u64::MAX; CHANGED.len()],
        };
        let at = u64::MAX / 2;
        Detour::new(errand, &of_long_values, 0, at).code.len()
    }
}

/// Instructions, and what is known of the registers behind them.
#[derive(Default)]
struct Code {
    bytes: Vec<u8>,
    known: [Option<u64>; REGISTERS],
}

impl Code {
    /// `mov $value,register`, in the shortest form that leaves the flags alone; nothing where it is there.
    fn load(&mut self, register: u8, value: u64) {
        let known = &mut self.known[usize::from(register)];
        if *known == Some(value) {
            return;
        }
        *known = Some(value);
        let extended = register >> 3;
        let opcode = 0xb8 + (register & 7);
        if let Ok(short) = u32::try_from(value) {
            if extended == 1 {
                self.bytes.push(0x41);
            }
            self.bytes.push(opcode);
            self.bytes.extend(short.to_le_bytes());
        } else {
            self.bytes.extend([0x48 | extended, opcode]);
            self.bytes.extend(value.to_le_bytes());
        }
    }

    /// Two ways meet here.
    fn forget(&mut self) {
        self.known = Default::default();
    }

    fn call(&mut self, call: &Call) {
        let [a, b, c, d, e, f] = call.arguments;
        let arguments = [(RDI, a), (RSI, b), (RDX, c), (R10, d), (R8, e), (R9, f)];
        for (register, value) in [(RAX, call.number as u64)].into_iter().chain(arguments) {
            self.load(register, value);
        }
        self.bytes.extend([0x0f, 0x05]); // syscall
        for changed in [RAX, RCX, R11] {
            self.known[usize::from(changed)] = None;
        }
    }

    /// Adds what a call has answered to rbx, in which the answers that are wanted have been taken off.
    fn add_answer(&mut self) {
        self.bytes.extend([0x48, 0x8d, 0x1c, 0x03]); // lea (%rbx,%rax),%rbx
        self.known[usize::from(RBX)] = None;
    }

    /// Goes on at an offset that is not known yet unless rbx is 0; returns where that is to be written.
    fn leave_unless_zero(&mut self) -> usize {
        const JUMP: u8 = 5;
        self.bytes.extend([0x48, 0x89, 0xd9]); // mov %rbx,%rcx
        self.known[usize::from(RCX)] = None;
        self.bytes.extend([0xe3, JUMP]); // jrcxz over the jump
        self.jump()
    }

    fn jump(&mut self) -> usize {
        self.bytes.extend([0xe9, 0, 0, 0, 0]);
        self.bytes.len()
    }

    /// Lets the jump that ends at this offset lead here.
    fn land(&mut self, behind: usize) {
        let distance = (self.bytes.len() - behind) as u32;
        self.bytes[behind - 4..behind].copy_from_slice(&distance.to_le_bytes());
        self.forget();
    }

    fn map(&mut self, room: &Room) {
        self.load(RBX, room.address.wrapping_neg());
        self.call(&room.take());
        self.add_answer();
        let not_taken = self.leave_unless_zero();
        let calls = room.make();
        // An error is never made up for: an answer is what is wanted, or far less.
        let wanted = calls.iter().fold(0u64, |sum, c| sum.wrapping_add(c.1));
        self.load(RBX, wanted.wrapping_neg());
        for (call, _) in &calls {
            self.call(call);
            self.add_answer();
        }
        let not_made = self.leave_unless_zero();
        let (address, value) = room.mark;
        self.load(RAX, value);
        self.bytes.extend([0x48, 0xa3]); // movabs %rax,address
        self.bytes.extend(address.to_le_bytes());
        let made = self.jump();
        self.land(not_made);
        self.call(&Call::unmap(room.address, room.len));
        self.land(made);
        self.land(not_taken);
    }
}

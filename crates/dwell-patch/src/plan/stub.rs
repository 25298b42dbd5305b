//! What runs instead of a window: hooks and the displaced instructions, at their new place.
use super::{Place, Window};
use crate::Hook;
use dwell_agent::layout::{KEPT_LEN, Registers, STRIPE_HASH, STRIPE_SHIFT};
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, OpKind, Register,
};
use std::mem::size_of;
use thiserror::Error;

/// What a stub needs to know of a site's hook. Addresses are actual.
#[derive(Clone, Copy, Debug)]
pub struct HookSite {
    /// What to do.
    pub hook: Hook,
    /// The number that tells it from the arena's other sites.
    pub number: u64,
    /// Address of the arena's link.
    pub link: u64,
    /// Address of its counters, and how they are striped.
    pub counters: u64,
    /// Bytes between stripes.
    pub stride: u32,
    /// Logarithm of the number of stripes.
    pub stripe_bits: u32,
    /// Address of the agent's code.
    pub agent: u64,
    /// Address of the programs.
    pub programs: u64,
}

/// The code of a stub.
#[derive(Clone, Debug)]
pub struct Stub {
    /// Actual address.
    pub address: u64,
    /// The code.
    pub bytes: Vec<u8>,
    /// For each displaced instruction its old actual address and where it is now, its hooks included.
    pub moved: Vec<(u64, u64)>,
}

/// The stub cannot be there: something it must reach is farther than 2 GiB.
#[derive(Clone, Debug, Error)]
#[error("the code at {address:#x} cannot be moved: {why}")]
pub struct StubError {
    /// Stated address of the window.
    pub address: u64,
    /// What the encoder says.
    pub why: String,
}

/// Bytes that the stub of a window cannot exceed.
pub fn longest_stub(window: &Window, hook_of: impl Fn(usize) -> Hook) -> usize {
    const LONGEST_INSTRUCTION: usize = 48;
    const LONGEST_HOOK: usize = 112;
    /// How many times longer copied code can become: a short conditional jump a near one.
    const WIDENED: usize = 3;
    let hook = |number| match hook_of(number) {
        Hook::Inline(offset) => LONGEST_HOOK + WIDENED * dwell_agent::copied(offset).len(),
        _ => LONGEST_HOOK,
    };
    let hooks: usize = (0..window.sites.len()).map(hook).sum();
    window.instructions.len() * LONGEST_INSTRUCTION + hooks + 16
}

/// Writes the stub of a window of a file loaded with `bias`, to stand at `address`.
pub fn assemble(
    window: &Window,
    bias: u64,
    address: u64,
    hook_of: impl Fn(usize) -> HookSite,
) -> Result<Stub, StubError> {
    let mut code = Assembler {
        address,
        bytes: Vec::new(),
    };
    let mut moved = Vec::new();
    let failed = |why| StubError {
        address: window.start(),
        why,
    };
    for (index, instruction) in window.instructions.iter().enumerate() {
        moved.push((instruction.ip().wrapping_add(bias), code.here()));
        for (number, site) in window.sites.iter().enumerate() {
            if site.instruction == index {
                code.hook(site.place, hook_of(number)).map_err(failed)?;
            }
        }
        code.displaced(instruction, bias).map_err(failed)?;
    }
    let last = window.instructions[window.instructions.len() - 1].flow_control();
    let falls_through = !matches!(
        last,
        FlowControl::Return
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Call
            | FlowControl::IndirectCall
    );
    if falls_through {
        let resume = window.resume().wrapping_add(bias);
        code.jump(resume).map_err(failed)?;
    }
    Ok(Stub {
        address,
        bytes: code.bytes,
        moved,
    })
}

/// Bytes below the stack pointer that a function may use without moving it.
const RED_ZONE: i8 = -128;
const _: () = assert!(KEPT_LEN == 8 + RED_ZONE.unsigned_abs() as u64);

struct Assembler {
    address: u64,
    bytes: Vec<u8>,
}

impl Assembler {
    fn here(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    fn emit(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The 32-bit distance from the end of a field at the current place to `target`.
    fn distance(&mut self, target: u64) -> Result<(), String> {
        let from = self.here() + 4;
        let distance = target.wrapping_sub(from) as i64;
        let distance = i32::try_from(distance).map_err(|_| format!("{target:#x} is too far"))?;
        self.emit(&distance.to_le_bytes());
        Ok(())
    }

    fn jump(&mut self, target: u64) -> Result<(), String> {
        self.emit(&[0xe9]);
        self.distance(target)
    }

    /// At entries and returns the flags are dead and nothing lies below the stack pointer; elsewhere
    /// both are kept.
    fn hook(&mut self, place: Place, site: HookSite) -> Result<(), String> {
        let keeps_all = matches!(place, Place::Offset(_));
        if keeps_all {
            self.emit(&[0x48, 0x8d, 0x64, 0x24, RED_ZONE as u8]); // lea -128(%rsp),%rsp
            self.emit(&[0x9c]); // pushfq
        }
        match site.hook {
            Hook::Count => self.count(site)?,
            Hook::Call(offset) => self.call(site, site.agent + offset)?,
            Hook::Inline(offset) => self.inline(site, offset)?,
            Hook::Program { code, number } => self.program(site.programs + code, number)?,
        }
        if keeps_all {
            self.emit(&[0x9d]); // popfq
            self.emit(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea 128(%rsp),%rsp
        }
        Ok(())
    }

    /// `counters[stripe_of(rsp)][number] += 1`, locked: exact whoever shares the stripe.
    fn count(&mut self, site: HookSite) -> Result<(), String> {
        self.emit(&[0x50, 0x51]); // push %rax; push %rcx
        self.emit(&[0x48, 0x89, 0xe0]); // mov %rsp,%rax
        self.emit(&[0x48, 0xc1, 0xe8, STRIPE_SHIFT as u8]); // shr $20,%rax
        self.emit(&[0x69, 0xc0]); // imul $HASH,%eax,%eax
        self.emit(&STRIPE_HASH.to_le_bytes());
        self.emit(&[0xc1, 0xe8, (32 - site.stripe_bits) as u8]); // shr $(32 - bits),%eax
        self.emit(&[0x48, 0x69, 0xc0]); // imul $stride,%rax,%rax
        self.emit(&site.stride.to_le_bytes());
        self.emit(&[0x48, 0x8d, 0x0d]); // lea counter(%rip),%rcx
        self.distance(site.counters + site.number * 8)?;
        self.emit(&[0xf0, 0x48, 0xff, 0x04, 0x01]); // lock incq (%rcx,%rax)
        self.emit(&[0x59, 0x58]); // pop %rcx; pop %rax
        Ok(())
    }

    /// `handler(link, number, &registers)` on an aligned stack.
    fn call(&mut self, site: HookSite, handler: u64) -> Result<(), String> {
        const { assert!(size_of::<Registers>() == 9 * 8) };
        self.emit(&[0x50, 0x51, 0x52, 0x56, 0x57]); // push %rax, %rcx, %rdx, %rsi, %rdi
        self.emit(&[0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53]); // push %r8 .. %r11
        self.emit(&[0x48, 0x89, 0xe2]); // mov %rsp,%rdx
        self.emit(&[0x48, 0x8d, 0x3d]); // lea link(%rip),%rdi
        self.distance(site.link)?;
        self.emit(&[0xbe]); // mov $number,%esi
        self.emit(&(site.number as u32).to_le_bytes());
        self.emit(&[0x53, 0x48, 0x89, 0xe3]); // push %rbx; mov %rsp,%rbx
        self.emit(&[0x48, 0x83, 0xe4, 0xf0]); // and $-16,%rsp
        self.emit(&[0xfc, 0xe8]); // cld; call handler
        self.distance(handler)?;
        self.emit(&[0x48, 0x89, 0xdc, 0x5b]); // mov %rbx,%rsp; pop %rbx
        self.emit(&[0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58]); // pop %r11 .. %r8
        self.emit(&[0x5f, 0x5e, 0x5a, 0x59, 0x58]); // pop %rdi, %rsi, %rdx, %rcx, %rax
        Ok(())
    }

    /// A copy of the code with the link in r11 and, in r10, what follows here.
    fn inline(&mut self, site: HookSite, offset: u64) -> Result<(), String> {
        self.emit(&[0x4c, 0x8d, 0x1d]); // lea link(%rip),%r11
        self.distance(site.link)?;
        self.emit(&[0x4c, 0x8d, 0x15, 0, 0, 0, 0]); // lea behind(%rip),%r10
        let start = self.bytes.len();
        let code = dwell_agent::copied(offset);
        let decoder = Decoder::with_ip(64, code, site.agent + offset, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.into_iter().collect();
        self.encode(&instructions)?;
        let len = (self.bytes.len() - start) as i32;
        self.bytes[start - 4..start].copy_from_slice(&len.to_le_bytes());
        Ok(())
    }

    /// `code` with a number below its return address.
    fn program(&mut self, code: u64, number: u32) -> Result<(), String> {
        self.emit(&[0x68]); // push $number
        self.emit(&number.to_le_bytes());
        self.emit(&[0xe8]); // call code
        self.distance(code)?;
        self.emit(&[0x48, 0x8d, 0x64, 0x24, 8]); // lea 8(%rsp),%rsp
        Ok(())
    }

    fn displaced(&mut self, instruction: &Instruction, bias: u64) -> Result<(), String> {
        let mut moved = rebased(instruction, bias);
        let is_call = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        if is_call {
            // The callee must find the return address it would have found: unwinders know that one.
            let back = instruction.next_ip().wrapping_add(bias);
            self.emit(&[0x48, 0x8d, 0x64, 0x24, 0xf8]); // lea -8(%rsp),%rsp
            self.emit(&[0xc7, 0x04, 0x24]); // movl $low,(%rsp)
            self.emit(&(back as u32).to_le_bytes());
            self.emit(&[0xc7, 0x44, 0x24, 0x04]); // movl $high,4(%rsp)
            self.emit(&((back >> 32) as u32).to_le_bytes());
            turn_into_jump(&mut moved)?;
        }
        // A jump to the window's own start must go there, and not to its copy in this block.
        moved.set_ip(u64::MAX);
        self.encode(&[moved])
    }

    fn encode(&mut self, instructions: &[Instruction]) -> Result<(), String> {
        let block = InstructionBlock::new(instructions, self.here());
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)
            .map_err(|e| e.to_string())?;
        self.emit(&encoded.code_buffer);
        Ok(())
    }
}

/// The instruction with its absolute operands where the file is loaded.
fn rebased(instruction: &Instruction, bias: u64) -> Instruction {
    let mut moved = *instruction;
    if moved.is_ip_rel_memory_operand() {
        moved.set_memory_displacement64(moved.ip_rel_memory_address().wrapping_add(bias));
    }
    if matches!(moved.op0_kind(), OpKind::NearBranch64) {
        moved.set_near_branch64(moved.near_branch64().wrapping_add(bias));
    }
    moved
}

/// Makes a call a jump, 8 bytes of stack lower.
fn turn_into_jump(call: &mut Instruction) -> Result<(), String> {
    match call.code() {
        Code::Call_rel32_64 => call.set_code(Code::Jmp_rel32_64),
        Code::Call_rm64 => {
            call.set_code(Code::Jmp_rm64);
            if call.op0_kind() == OpKind::Register && call.op0_register() == Register::RSP {
                return Err("a call to the stack pointer".into());
            }
            if call.op0_kind() == OpKind::Memory && call.memory_base() == Register::RSP {
                call.set_memory_displacement64(call.memory_displacement64().wrapping_add(8));
                call.set_memory_displ_size(4);
            }
        }
        other => return Err(format!("a call of the form {other:?}")),
    }
    Ok(())
}

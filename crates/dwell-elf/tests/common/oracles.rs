//! The same stack by every unwinder.
use super::process::{Mapping, Stopped, full_modules, table_modules};
use dwell_abi::unwind::StackEnd;
use dwell_elf::step::{Registers, Stepper};
use dwell_elf::table_step::{self, CoreRegs, Frame};
use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use std::process::Command;

/// More frames than any test program has.
pub const MAX_FRAMES: usize = 4096;

/// A stack and why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub frames: Vec<Frame>,
    pub end: StackEnd,
}

impl Stack {
    pub fn pcs(&self) -> Vec<u64> {
        self.frames.iter().map(|frame| frame.pc).collect()
    }
}

/// Every unwinder for the modules of one process.
pub struct Unwinders {
    pub mappings: Vec<Mapping>,
    table: Vec<table_step::TableModule<'static>>,
    full: Stepper<'static>,
    framehop: UnwinderX86_64<&'static [u8]>,
    cache: CacheX86_64,
}

impl Unwinders {
    pub fn new(mappings: Vec<Mapping>) -> Self {
        let mut framehop = UnwinderX86_64::new();
        mappings
            .iter()
            .for_each(|m| framehop.add_module(framehop_module(m)));
        Unwinders {
            table: table_modules(&mappings),
            full: Stepper::new(full_modules(&mappings)),
            framehop,
            cache: CacheX86_64::new(),
            mappings,
        }
    }

    pub fn table(&self, registers: &Registers, thread: &Stopped) -> Stack {
        let get = |r| registers.get(r).expect("all registers are known");
        let regs = CoreRegs {
            pc: get(Registers::RIP),
            sp: get(Registers::RSP),
            bp: get(Registers::RBP),
            leaf: *registers,
            is_return_address: false,
        };
        let mut frames = Vec::new();
        let end = table_step::walk(
            &self.table,
            regs,
            &mut |a| thread.read(a),
            MAX_FRAMES,
            &mut frames,
        );
        Stack { frames, end }
    }

    pub fn full(&mut self, registers: &Registers, thread: &Stopped) -> Stack {
        let mut frames = Vec::new();
        let end = self
            .full
            .walk(registers, &mut |a| thread.read(a), MAX_FRAMES, &mut frames);
        Stack { frames, end }
    }

    /// The pcs that framehop finds.
    pub fn framehop(&mut self, registers: &Registers, thread: &Stopped) -> Vec<u64> {
        let get = |r| registers.get(r).expect("all registers are known");
        let pc = get(Registers::RIP);
        let regs = UnwindRegsX86_64::new(pc, get(Registers::RSP), get(Registers::RBP));
        let mut read = |address| thread.read(address).ok_or(());
        let mut frames = self
            .framehop
            .iter_frames(pc, regs, &mut self.cache, &mut read);
        let mut pcs = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            pcs.push(frame.address());
            if pcs.len() >= MAX_FRAMES {
                break;
            }
        }
        pcs
    }
}

fn framehop_module(m: &Mapping) -> framehop::Module<&'static [u8]> {
    let file = &m.image.file;
    let section = |name: &str| {
        let section = file.section(name)?;
        let bytes = section.raw_bytes()?;
        Some((
            section.stated_address()..section.stated_address() + bytes.len() as u64,
            bytes,
        ))
    };
    let (text_svma, text) = section(".text").unzip();
    let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
    let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
    let (got_svma, _) = section(".got").unzip();
    let info = framehop::ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma,
        text,
        got_svma,
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..Default::default()
    };
    framehop::Module::new(m.image.path.clone(), m.start..m.end, m.bias, info)
}

/// The frames that `eu-stack` finds for each thread of a process, by thread id. The process must not
/// be traced by anybody.
pub fn eu_stack(pid: i32) -> Vec<(i32, Vec<Frame>)> {
    let output = Command::new("eu-stack")
        .args(["-q", "-a", "-n", "0", "-p", &pid.to_string()])
        .output();
    let output = output.expect("eu-stack (package elfutils) is needed for this test");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut threads: Vec<(i32, Vec<Frame>)> = Vec::new();
    for line in text.lines() {
        if let Some(tid) = line.strip_prefix("TID ") {
            threads.push((tid.trim_end_matches(':').parse().expect("tid"), Vec::new()));
        } else if let Some(frame) = line.strip_prefix('#') {
            let mut words = frame.split_whitespace().skip(1);
            let pc = words
                .next()
                .and_then(|w| u64::from_str_radix(w.trim_start_matches("0x"), 16).ok());
            let is_return_address = words.next() == Some("-");
            let (_, frames) = threads.last_mut().expect("a thread before its frames");
            frames.push(Frame {
                pc: pc.expect("a pc"),
                is_return_address,
            });
        }
    }
    threads
}

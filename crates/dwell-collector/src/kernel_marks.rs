//! The few kernel functions whose presence in a stack means something.
use libbpf_rs::btf::types::DataSec;
use libbpf_rs::btf::{Btf, BtfType};
use std::fs;
use std::ops::Range;

/// What a kernel function in a stack says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Entry of an interrupt: what is nearer to the leaf is the interrupt's, not the thread's.
    Interrupt,
    /// The timer interrupt's handler.
    Timer,
    /// Deferred interrupt work.
    Softirq,
    /// The common part of waking: what is nearer to the leaf is our own tracing.
    Waking,
    /// The beginning of another program.
    Exec,
    /// The end of a thread.
    Exit,
    /// Code that stands for an indirect jump or a return, so that the processor does not foresee where it leads:
    /// while it runs, what looks like its caller may be where it goes to.
    Thunk,
}

/// Who a waker's kernel stack shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakerStack {
    /// The thread itself.
    Task,
    /// A timer.
    Timer,
    /// Another interrupt, or work it deferred.
    Interrupt,
}

/// Address ranges of marked functions, and the tick's address.
#[derive(Default)]
pub struct KernelMarks {
    ranges: Vec<(u64, u64, Mark)>,
    /// Address of the scheduler's tick; none when kernel symbols are hidden.
    pub tick_function: Option<u64>,
    /// `__local_bh_enable_ip`, which runs softirqs for the thread that calls it; empty when unknown.
    pub bh_enable: Range<u64>,
    /// The kernel's entry code: interrupts, exceptions, system calls; empty when unknown.
    pub entry: Range<u64>,
    /// The kernel's unwind table.
    pub orc: OrcTable,
    /// What stands in place of return addresses in the kernel's stacks while functions' returns are traced.
    pub return_hooks: [u64; 2],
    /// From a processor's run queue to where it keeps the address of the registers that its interrupt came upon,
    /// bytes; none when unknown.
    pub queue_to_irq_regs: Option<u64>,
    /// The scheduler's functions, which the kernel leaves out of the stacks of threads that sleep; empty when unknown.
    pub switching: Range<u64>,
}

/// Where the kernel keeps what its own unwinder reads (ORC): two arrays of as many members. Empty when unknown.
#[derive(Default)]
pub struct OrcTable {
    /// Where each row begins to hold, as the distance from its own four bytes.
    pub ips: Range<u64>,
    /// Address of the rows.
    pub rows: u64,
    /// The code that they are of.
    pub text: Range<u64>,
}

impl OrcTable {
    /// Rows that there are, if all that has to be known of them is.
    pub fn len(&self) -> u64 {
        let is_known = self.rows != 0 && !self.text.is_empty();
        if is_known && !self.ips.is_empty() {
            (self.ips.end - self.ips.start) / 4
        } else {
            0
        }
    }
}

/// The names the scheduler's tick had over the years.
const TICKS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// Those of ftrace's function graph and of return probes.
const RETURN_HOOKS: [&str; 2] = ["return_to_handler", "arch_rethook_trampoline"];

fn mark_of(name: &str) -> Option<Mark> {
    match name {
        "hrtimer_interrupt" | "run_timer_softirq" | "hrtimer_run_softirq" => Some(Mark::Timer),
        "handle_softirqs" | "__do_softirq" => Some(Mark::Softirq),
        "try_to_wake_up" => Some(Mark::Waking),
        "do_exit" => Some(Mark::Exit),
        _ if name.contains("execve") => Some(Mark::Exec),
        _ if name.starts_with("asm_sysvec_") || name == "asm_common_interrupt" => {
            Some(Mark::Interrupt)
        }
        // Sections .text..__x86.* of the kernel's arch/x86/lib/retpoline.S.
        _ if name.starts_with("__x86_indirect_")
            || name.ends_with("_return_thunk")
            || name.ends_with("_safe_ret") =>
        {
            Some(Mark::Thunk)
        }
        _ => None,
    }
}

/// The distance between two variables of which each processor has its own, bytes. It is the same for all of them, and
/// known where the variables' addresses are not (without `CONFIG_KALLSYMS_ALL`).
fn between_processor_variables(from: &str, to: &str) -> Option<u64> {
    let btf = Btf::from_vmlinux().ok()?;
    let section = btf
        .type_by_kind::<DataSec>()
        .find(|s| s.name().is_some_and(|n| n == ".data..percpu"))?;
    let offset = |name: &str| {
        let named = |ty| btf.type_by_id::<BtfType>(ty).and_then(|t| t.name());
        let variable = section
            .iter()
            .find(|v| named(v.ty).is_some_and(|n| n == name))?;
        Some(u64::from(variable.offset))
    };
    Some(offset(to)?.wrapping_sub(offset(from)?))
}

/// Of a line `ADDRESS TYPE NAME [MODULE]`, as there are a hundred thousand.
fn address_and_name(line: &str) -> Option<(&str, &str)> {
    let (address, rest) = line.split_once(' ')?;
    let name = rest.get(2..)?;
    Some((address, name.split_once('\t').map_or(name, |n| n.0)))
}

impl KernelMarks {
    /// Reads the kernel's symbols, which are returned as `/proc/kallsyms` has them (some MiB), and its BTF.
    pub fn read() -> (Self, String) {
        let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let marks = KernelMarks {
            queue_to_irq_regs: between_processor_variables("runqueues", "__irq_regs"),
            ..Self::parse(&symbols)
        };
        (marks, symbols)
    }

    fn parse(symbols: &str) -> Self {
        let mut marks = KernelMarks::default();
        let mut open: Option<(u64, Mark)> = None;
        let mut bh_enable_open = false;
        for line in symbols.lines() {
            let Some((address, name)) = address_and_name(line) else {
                continue;
            };
            let Some(address) = u64::from_str_radix(address, 16).ok().filter(|&a| a != 0) else {
                continue;
            };
            // The file is sorted by address within the kernel image: a symbol ends where the next begins.
            if let Some((start, mark)) = open
                && address > start
            {
                marks.add_range(start, address, mark);
                open = None;
            }
            if bh_enable_open && address > marks.bh_enable.start {
                marks.bh_enable.end = address;
                bh_enable_open = false;
            }
            match name {
                "__local_bh_enable_ip" => {
                    marks.bh_enable = address..address;
                    bh_enable_open = true;
                }
                "__entry_text_start" => marks.entry = address..address,
                "__entry_text_end" => marks.entry.end = address.max(marks.entry.start),
                "__sched_text_start" => marks.switching = address..address,
                "__sched_text_end" => marks.switching.end = address.max(marks.switching.start),
                "__start_orc_unwind_ip" => marks.orc.ips = address..address,
                "__stop_orc_unwind_ip" => marks.orc.ips.end = address,
                "__start_orc_unwind" => marks.orc.rows = address,
                "_stext" => marks.orc.text = address..address,
                "_etext" => marks.orc.text.end = address,
                _ => {}
            }
            if let Some(hook) = RETURN_HOOKS.iter().position(|h| *h == name) {
                marks.return_hooks[hook] = address;
            }
            if let Some(mark) = mark_of(name) {
                open = Some((address, mark));
            }
            if TICKS.contains(&name) {
                marks.tick_function.get_or_insert(address);
            }
        }
        marks
    }

    /// Adds a function's addresses; neighbours that say the same are one range.
    fn add_range(&mut self, start: u64, end: u64, mark: Mark) {
        match self.ranges.last_mut() {
            Some(last) if last.1 == start && last.2 == mark => last.1 = end,
            _ => self.ranges.push((start, end, mark)),
        }
    }

    fn mark(&self, pc: u64) -> Option<Mark> {
        self.ranges
            .iter()
            .find(|r| (r.0..r.1).contains(&pc))
            .map(|r| r.2)
    }

    /// A thread's kernel stack (leaf first) without the interrupt that came on top of it.
    pub fn without_interrupt<'a>(&self, pcs: &'a [u64]) -> &'a [u64] {
        let entry = pcs
            .iter()
            .position(|&pc| self.mark(pc) == Some(Mark::Interrupt));
        entry.map_or(pcs, |at| &pcs[at + 1..])
    }

    /// The kernel stack (leaf first) of a thread that is being switched from, without the scheduler and, on top of
    /// that, our own tracing.
    pub fn without_switching(&self, pcs: &[u64]) -> Vec<u64> {
        let switches = |pc: &u64| self.switching.contains(pc);
        let first = pcs.iter().position(switches).unwrap_or(0);
        let rest = pcs[first..].iter().copied();
        rest.filter(|pc| !switches(pc)).collect()
    }

    /// Whether an address in a stack is that of an instruction, not of the return from a call: it is the leaf, what an
    /// interrupt or exception came upon, or where a jump leads that it came upon. `nearer` is the next address to the
    /// leaf.
    pub fn is_instruction(&self, nearer: Option<u64>) -> bool {
        nearer.is_none_or(|pc| self.entry.contains(&pc) || self.mark(pc) == Some(Mark::Thunk))
    }

    /// Whether a kernel stack is inside the system call that begins another program.
    pub fn in_exec(&self, pcs: &[u64]) -> bool {
        pcs.iter().any(|&pc| self.mark(pc) == Some(Mark::Exec))
    }

    /// Whether a kernel stack is that of a thread that ends.
    pub fn in_exit(&self, pcs: &[u64]) -> bool {
        pcs.iter().any(|&pc| self.mark(pc) == Some(Mark::Exit))
    }

    /// A waker's kernel stack without our own tracing, and who it shows.
    pub fn waker<'a>(&self, pcs: &'a [u64]) -> (&'a [u64], WakerStack) {
        let waking = pcs
            .iter()
            .position(|&pc| self.mark(pc) == Some(Mark::Waking))
            .map_or(0, |at| at + 1);
        let pcs = &pcs[waking..];
        let marks: Vec<Mark> = pcs.iter().filter_map(|&pc| self.mark(pc)).collect();
        let who = match marks {
            m if !m.contains(&Mark::Interrupt) => WakerStack::Task,
            m if m.contains(&Mark::Timer) => WakerStack::Timer,
            _ => WakerStack::Interrupt,
        };
        (pcs, who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "1000 T try_to_wake_up\n1100 T other\n2000 T hrtimer_interrupt\n2100 t x\n3000 T asm_sysvec_apic_timer_interrupt\n3010 T y\n4000 t tick_nohz_handler\n";

    #[test]
    fn stacks_lose_their_interrupt() {
        let marks = KernelMarks::parse(SYMBOLS);
        assert_eq!(marks.tick_function, Some(0x4000));
        assert_eq!(marks.without_interrupt(&[0x2010, 0x3005, 0x5000]), [0x5000]);
        assert_eq!(marks.without_interrupt(&[0x1100, 0x5000]), [0x1100, 0x5000]);
    }

    #[test]
    fn who_ends_is_told_from_who_begins_another_program() {
        let symbols = "1000 T do_exit\n2000 T __x64_sys_execve\n3000 T schedule\n";
        let marks = KernelMarks::parse(symbols);
        assert!(marks.in_exit(&[0x3010, 0x1020]) && !marks.in_exec(&[0x3010, 0x1020]));
        assert!(marks.in_exec(&[0x3010, 0x2020]) && !marks.in_exit(&[0x3010, 0x2020]));
    }

    #[test]
    fn who_goes_to_sleep_is_seen_below_the_scheduler() {
        let symbols = "6000 T __sched_text_start\n6000 T __schedule\n6100 T __sched_text_end\n";
        let marks = KernelMarks::parse(symbols);
        let stack =
            marks.without_switching(&[0x9000, 0x9100, 0x6050, 0x6010, 0x7000, 0x6020, 0x8000]);
        assert_eq!(stack, [0x7000, 0x8000]);
        assert_eq!(marks.without_switching(&[0x7000, 0x8000]), [0x7000, 0x8000]);
    }

    #[test]
    fn the_unwind_table_is_known_whole_or_not_at_all() {
        let symbols = "1000 T _stext\n9000 T _etext\na000 R __start_orc_unwind_ip\na010 R __start_orc_unwind\na010 R __stop_orc_unwind_ip\n";
        let orc = KernelMarks::parse(symbols).orc;
        assert_eq!((orc.len(), orc.rows, orc.text), (4, 0xa010, 0x1000..0x9000));
        let without_rows = symbols.replace("__start_orc_unwind\n", "x\n");
        assert_eq!(KernelMarks::parse(&without_rows).orc.len(), 0);
        assert_eq!(KernelMarks::parse("1000 T _stext\n").orc.len(), 0);
    }

    #[test]
    fn where_a_jump_leads_is_no_return_address() {
        let symbols = "100 T __entry_text_start\n200 T __entry_text_end\n300 T __x86_indirect_thunk_rax\n310 T srso_return_thunk\n320 T other\n";
        let marks = KernelMarks::parse(symbols);
        assert_eq!(marks.ranges.len(), 1);
        let nearer = [None, Some(0x150), Some(0x301), Some(0x31f), Some(0x320)];
        let told = nearer.map(|pc| marks.is_instruction(pc));
        assert_eq!(told, [true, true, true, true, false]);
    }

    #[test]
    fn wakers_are_told_apart() {
        let marks = KernelMarks::parse(SYMBOLS);
        assert_eq!(
            marks.waker(&[0x9000, 0x1010, 0x5000]),
            (&[0x5000][..], WakerStack::Task)
        );
        assert_eq!(marks.waker(&[0x1010, 0x2010, 0x3001]).1, WakerStack::Timer);
        assert_eq!(marks.waker(&[0x1010, 0x3001]).1, WakerStack::Interrupt);
    }
}

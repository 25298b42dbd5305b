//! The ledger of memory adds up: times to the exact running time, counts to those of the kernel.
use dwell_analysis::Analysis;
use dwell_analysis::memory::{self, Component, Ledger, Sums};
use dwell_analysis::testing::drawn;
use dwell_recording::Tables;
use dwell_recording::meta::{KernelThreadCost, MemoryCosts};
use dwell_recording::rows::MemoryPlaceRow;

const MS: u64 = 1_000_000;

/// A program that touches pages in `fill`, gives them back in `drop`, writes a file and computes.
fn tables() -> Tables {
    let mut tables = drawn(
        "state | running | running                 | running                | running               | running          | running
         time  | 30      | 20                      | 50                     | 25                    | 10               | 5
         stack | main    | main                    | main                   | main                  | main             | main
               | compute | fill                    | fill                   | drop                  | write            | exit
               |         | asm_exc_page_fault_[k]  | asm_exc_page_fault_[k] | __x64_sys_munmap_[k]  | ksys_write_[k]   | do_exit_[k]
               |         | handle_mm_fault_[k]     | clear_page_erms_[k]    | free_unref_folios_[k] | ext4_write_[k]   | exit_mmap_[k]",
    );
    tables.meta.memory = Some(MemoryCosts {
        clear_cached_ns: 100.0,
        clear_uncached_ns: 400.0,
        machine_allocated_pages: 2500,
        kernel_allocated_pages: 500,
        machine_freed_pages: 1500,
        kernel_threads: vec![KernelThreadCost {
            name: "kswapd0".into(),
            cpu_ns: 40 * MS,
        }],
    });
    tables
}

/// The number of the stack with this user function innermost.
fn stack_of(tables: &Tables, function: &str) -> u32 {
    let frame = |id: &u32| {
        let symbol = tables.symbols.iter().find(|s| s.frame == *id);
        symbol.is_some_and(|s| s.function == function)
    };
    let found = tables.stacks.iter().find(|s| s.frames.iter().any(frame));
    found.expect("drawn").stack
}

fn ledger_of(tables: &Tables) -> Ledger {
    memory::ledger(&Analysis::of(tables)).expect("recorded")
}

#[test]
fn time_adds_up_to_the_running_time_of_all_threads() {
    let tables = tables();
    let ledger = ledger_of(&tables);
    let running: u64 = tables.threads.iter().map(|t| t.running_ns).sum();
    assert_eq!(ledger.running_ns, running);
    assert_eq!(
        ledger.program_ns + ledger.memory_ns + ledger.other_kernel_ns,
        running
    );
    assert_eq!(ledger.components.values().sum::<u64>(), ledger.memory_ns);
    assert_eq!(
        ledger.stacks.iter().map(|s| s.ns).sum::<u64>(),
        ledger.memory_ns
    );
    let ms = |c: Component| ledger.components.get(&c).copied().unwrap_or(0) / MS;
    let wanted = [
        (Component::Fault, 20),
        (Component::Clearing, 50),
        (Component::Freeing, 25),
        (Component::Exit, 5),
        (Component::Copying, 0),
    ];
    for (component, n) in wanted {
        assert_eq!(ms(component), n, "{component:?}");
    }
    assert_eq!(ledger.other_kernel_ns, 10 * MS);
}

#[test]
fn counts_are_divided_among_the_stacks_of_a_place_and_none_is_lost() {
    let mut tables = tables();
    let [fill, drop] = ["fill", "drop"].map(|f| stack_of(&tables, f));
    let process = tables.processes[0].process;
    tables.memory_places = vec![
        MemoryPlaceRow {
            process,
            minor_faults: 1001,
            anonymous_faults: 1000,
            other_faults: 1,
            allocated_pages: 1000,
            zeroed_pages: 1000,
            stacks: vec![fill, fill, drop],
            ..MemoryPlaceRow::default()
        },
        MemoryPlaceRow {
            process,
            syscall: "munmap".into(),
            calls: 7,
            call_ns: 24 * MS,
            freed_pages: 900,
            stacks: vec![drop],
            ..MemoryPlaceRow::default()
        },
        MemoryPlaceRow {
            process,
            syscall: "exit".into(),
            freed_pages: 100,
            ..MemoryPlaceRow::default()
        },
    ];
    let ledger = ledger_of(&tables);
    let mut sum = Sums::default();
    ledger.stacks.iter().for_each(|s| sum.add(&s.sums));
    assert_eq!(sum, ledger.totals);
    assert_eq!(
        (sum.faults(), sum.allocated_pages, sum.freed_pages),
        (1001, 1000, 1000)
    );
    let analysis = Analysis::of(&tables);
    let ends_in = |cost: &&memory::StackCost, function: &str| {
        let last = cost.path.last();
        last.is_some_and(|f| analysis.names.function(*f).name == function)
    };
    let [fill, drop] = ["fill", "drop"].map(|f| {
        let found = ledger.stacks.iter().find(|s| ends_in(s, f));
        found.expect("it has costs").clone()
    });
    // Two of three stacks, to a fault.
    assert!(
        fill.sums.minor_faults.abs_diff(667) <= 1,
        "{}",
        fill.sums.minor_faults
    );
    assert_eq!(fill.ns, 70 * MS);
    assert_eq!((drop.sums.calls, drop.sums.freed_pages), (7, 900));
    let end = ledger.stacks.iter().find(|s| s.at_end).expect("it ended");
    assert_eq!((end.ns, end.sums.freed_pages), (5 * MS, 100));
    assert_eq!(ledger.calls["munmap"].calls, 7);
    // Half of the machine's pages are this program's, so is half of what the kernel's thread did.
    assert_eq!(ledger.attributed[0].charged_ns, 20 * MS);
    assert_eq!(ledger.clearing_modelled_ns, Some((100_000, 400_000)));
}

#[test]
fn the_way_into_the_kernel_is_that_of_the_call_made_there() {
    let mut tables = drawn(
        "state | running                  | running          | running
         time  | 20                       | 30               | 40
         stack | main                     | main             | main
               | unmap                    | write            | unmap
               | syscall_trace_enter_[k]  | ksys_write_[k]   | __x64_sys_munmap_[k]",
    );
    tables.meta.memory = Some(MemoryCosts::default());
    let process = tables.processes[0].process;
    let entry = |tables: &Tables| {
        let ledger = ledger_of(tables);
        let ns = ledger.components.get(&Component::Entry).copied();
        (ns.unwrap_or(0) / MS, ledger.other_kernel_ns / MS)
    };
    assert_eq!(entry(&tables), (0, 50));
    tables.memory_places = vec![MemoryPlaceRow {
        process,
        syscall: "munmap".into(),
        calls: 3,
        stacks: vec![stack_of(&tables, "unmap")],
        ..MemoryPlaceRow::default()
    }];
    assert_eq!(entry(&tables), (20, 30));
}

#[test]
fn there_is_none_unless_it_was_recorded() {
    let mut tables = tables();
    tables.meta.memory = None;
    assert!(memory::ledger(&Analysis::of(&tables)).is_none());
}

#[test]
fn rows_that_point_nowhere_lose_no_count() {
    let mut tables = tables();
    tables.memory_places = vec![MemoryPlaceRow {
        process: 4711,
        minor_faults: u64::MAX,
        major_faults: 5,
        stacks: vec![4711, 4712],
        ..MemoryPlaceRow::default()
    }];
    let ledger = ledger_of(&tables);
    assert_eq!(ledger.totals.faults(), u64::MAX);
    assert!(ledger.stacks.iter().any(|s| s.process.is_none()));
}

//! What does not change while the sample runs: processes, code, stacks, places to wait.
use super::{SECOND, START};
use dwell_recording::rows::*;

/// Name, inlined names around it (innermost first), module, kind.
type Function = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
);

const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";
const SERVER: &str = "/usr/bin/server";

/// One frame each, in this order.
const FUNCTIONS: [Function; 16] = [
    ("_start", &[], SERVER, "user"),
    ("__libc_start_main", &[], LIBC, "user"),
    ("main", &[], SERVER, "user"),
    ("clone3", &[], LIBC, "user"),
    (
        "server::worker<std::string>(int)",
        &["server::Queue::pop()"],
        SERVER,
        "user",
    ),
    ("server::parse(char const*)", &[], SERVER, "user"),
    (
        "server::hash(unsigned long)",
        &["rotl", "mix"],
        SERVER,
        "user",
    ),
    ("pthread_cond_wait", &[], LIBC, "user"),
    ("pthread_mutex_lock", &[], LIBC, "user"),
    ("write", &[], LIBC, "user"),
    ("fsync", &[], LIBC, "user"),
    ("clock_nanosleep", &[], LIBC, "user"),
    ("epoll_wait", &[], LIBC, "user"),
    ("entry_SYSCALL_64", &[], "[kernel]", "kernel"),
    ("futex_wait", &[], "[kernel]", "kernel"),
    ("", &[], "[anon]", "jit"),
];

/// The frame in which threads spin.
const SPINS: u32 = 5;

/// Stacks by the numbers of their frames, outermost first.
pub const STACKS: [&[u32]; 12] = [
    &[0, 1, 2],
    &[0, 1, 2, 12],
    &[3, 4, 5],
    &[3, 4, 5, 6],
    &[3, 4, 7, 13, 14],
    &[3, 4, 8, 13, 14],
    &[3, 4, 9],
    &[3, 10],
    &[3, 11],
    &[3, 15],
    &[3, 4],
    &[],
];

/// A place to wait: reason, system call, stack, shortest and longest wait in µs.
pub struct Place {
    pub reason: &'static str,
    pub syscall: &'static str,
    pub stack: u32,
    pub wait_us: (u64, u64),
}

const fn place(
    reason: &'static str,
    syscall: &'static str,
    stack: u32,
    from: u64,
    to: u64,
) -> Place {
    Place {
        reason,
        syscall,
        stack,
        wait_us: (from, to),
    }
}

/// Every place; the last is preemption.
pub const PLACES: [Place; 7] = [
    place(reason::LOCK, "futex", 4, 200, 30_000),
    place(reason::LOCK, "futex", 5, 5, 400),
    place(reason::PIPE, "write", 6, 20, 2_000),
    place(reason::IO, "fsync", 7, 1_000, 60_000),
    place(reason::SLEEP, "clock_nanosleep", 8, 90_000, 110_000),
    place(reason::POLL, "epoll_wait", 1, 500, 8_000),
    place("", "", 2, 0, 0),
];

/// A thread: process, name, places it waits at, stacks it runs at, mean run in µs, life in ms.
pub struct Actor {
    pub process: u32,
    pub name: &'static str,
    pub places: &'static [usize],
    pub running: &'static [u32],
    pub run_us: u64,
    pub life_ms: (u64, u64),
}

const fn actor(
    process: u32,
    name: &'static str,
    places: &'static [usize],
    running: &'static [u32],
    run_us: u64,
    life_ms: (u64, u64),
) -> Actor {
    Actor {
        process,
        name,
        places,
        running,
        run_us,
        life_ms,
    }
}

const ALWAYS: (u64, u64) = (0, u64::MAX);

/// Every thread. Those without a place sleep throughout.
pub const ACTORS: [Actor; 14] = [
    actor(1, "server", &[5], &[0], 300, ALWAYS),
    actor(1, "worker", &[0, 1, 2], &[2, 3, 10], 900, ALWAYS),
    actor(1, "worker", &[0, 1, 2], &[2, 3, 10], 1_100, ALWAYS),
    actor(1, "worker", &[0, 1], &[2, 3, 9], 4_000, ALWAYS),
    actor(1, "logger", &[2, 3], &[10], 150, ALWAYS),
    actor(1, "timer", &[4], &[10], 50, ALWAYS),
    actor(1, "pool", &[], &[], 0, ALWAYS),
    actor(1, "pool", &[], &[], 0, ALWAYS),
    actor(2, "helper", &[3], &[2], 2_000, (500, 620)),
    actor(2, "helper", &[3], &[3], 3_000, (700, 790)),
    actor(2, "helper", &[1], &[3], 5_000, (3_100, 3_400)),
    actor(3, "busy", &[], &[11], 1, ALWAYS),
    actor(3, "waiter", &[0], &[0], 10, (2_000, u64::MAX)),
    actor(1, "worker", &[1], &[2], 100, (1_000, 1_003)),
];

/// One frame per function.
pub fn frames() -> Vec<FrameRow> {
    let rows = FUNCTIONS.iter().enumerate();
    rows.map(|(frame, (_, _, module, kind))| FrameRow {
        frame: frame as u32,
        kind: (*kind).into(),
        module: (*module).into(),
        build_id: if *kind == "user" {
            format!("{:040x}", module.len())
        } else {
            String::new()
        },
        address: if *kind == "kernel" {
            0xffff_ffff_8100_0000 + frame as u64 * 64
        } else {
            0x1000 + frame as u64 * 64
        },
        process: (*kind == "jit").then_some(1),
        spinning: spinning(frame as u32),
    })
    .collect()
}

/// Whether the code of a frame waits for a lock; known where threads are seen running, but for
/// generated code.
fn spinning(frame: u32) -> Option<bool> {
    let of_actor = |actor: &Actor| {
        let mut running = actor.running.iter();
        running.any(|stack| STACKS[*stack as usize].last() == Some(&frame))
    };
    let known = ACTORS.iter().any(of_actor) && FUNCTIONS[frame as usize].3 != "jit";
    known.then_some(frame == SPINS)
}

/// The names of the frames; the one of generated code has none.
pub fn symbols() -> Vec<SymbolRow> {
    let mut rows = Vec::new();
    for (frame, (name, inlined, module, _)) in FUNCTIONS
        .iter()
        .enumerate()
        .filter(|(_, f)| !f.0.is_empty())
    {
        let names = inlined.iter().chain([name]);
        rows.extend(names.enumerate().map(|(depth, function)| SymbolRow {
            frame: frame as u32,
            depth: depth as u32,
            function: (*function).into(),
            file: (*module == SERVER).then(|| "server.cc".into()),
            line: (*module == SERVER).then_some(10 * frame as u32 + depth as u32),
            inlined: depth < inlined.len(),
        }));
    }
    rows
}

/// One row per stack; the last is that of a thread whose user part could not be read.
pub fn stacks() -> Vec<StackRow> {
    let rows = STACKS.iter().enumerate();
    rows.map(|(stack, frames)| StackRow {
        stack: stack as u32,
        frames: frames.to_vec(),
        end: if frames.is_empty() {
            "stack_unreadable"
        } else {
            "complete"
        }
        .into(),
    })
    .collect()
}

/// The words of the places 0 and 1 in every process: a variable, and one on the heap. (The last bit of
/// the address is the place.)
pub fn futexes() -> Vec<FutexRow> {
    let mut rows = Vec::new();
    for process in [1, 2, 3] {
        for place in [0, 1] {
            let stated = (place == 0).then_some(0x6040);
            rows.push(FutexRow {
                futex: rows.len() as u32,
                process,
                address: 0x7f00_0000_1000 + place,
                module: stated.map_or_else(String::new, |_| SERVER.into()),
                build_id: stated.map_or_else(String::new, |_| format!("{:040x}", SERVER.len())),
                stated,
                symbol: stated.map_or_else(String::new, |_| "server::jobs".into()),
                offset: stated.map(|_| 0x28),
            });
        }
    }
    rows
}

/// Counts of the server's locks up to `now`, written again every second: the one on the heap was
/// waited for, the others never.
pub fn locks(now: u64) -> Vec<LockRow> {
    let passed = (now - START) / 1000;
    let locks = [
        (
            0x7f00_0000_1001,
            lock_kind::MUTEX,
            "normal",
            Some(passed / 50),
        ),
        (0x7f00_0000_2000, lock_kind::READ, "", Some(0)),
        (0x7f00_0000_2000, lock_kind::WRITE, "", Some(0)),
        (0x7f00_0000_3000, lock_kind::CONDITION, "", None),
        (0x7f00_0000_4000, lock_kind::MUTEX, "recursive", Some(0)),
    ];
    let row = |(lock, (address, kind, mutex_type, contended))| LockRow {
        lock,
        process: 1,
        address,
        kind: String::from(kind),
        mutex_type: String::from(mutex_type),
        acquired: passed / (1 + u64::from(lock)),
        contended,
        try_fails: u64::from(lock) * 3,
        timeouts: 0,
        nested: if mutex_type == "recursive" { 7 } else { 0 },
        since_ns: START + 1_000_000,
        until_ns: now,
    };
    (0..).zip(locks).map(row).collect()
}

/// Blocks of the server's first lock in the second from `from` on: its workers (4001 …) take turns, and one
/// gives up.
pub fn lock_blocks(from: u64) -> Vec<LockBlockRow> {
    const BLOCKS: u64 = 20;
    let number = ((from - START) / 1_000_000_000) as u32 * BLOCKS as u32;
    let mut rows = Vec::new();
    for place in 0..BLOCKS {
        let begin = from + 1_000_000 + place * 40_000_000;
        let waited = 300_000 + place * 50_000;
        let row = |part: &str, ns_tid, start: u64, end: u64, how: &str| LockBlockRow {
            block: number + place as u32,
            process: 1,
            lock: 0,
            part: part.into(),
            ns_tid,
            start_ns: Some(start),
            end_ns: Some(end),
            end: how.into(),
            ..LockBlockRow::default()
        };
        let handed = begin + waited;
        let over = handed + 200_000;
        rows.push(LockBlockRow {
            start_ns: None,
            release_frame: Some(3),
            blamed_ns: waited + 100_000,
            ..row(block_part::HOLD, 4001, 0, handed, block_end::RELEASED)
        });
        rows.push(LockBlockRow {
            owner_ns_tid: 4001,
            frame: Some(4),
            queue: 2,
            ..row(
                block_part::WAIT,
                4003,
                begin + 50_000,
                begin + 150_000,
                block_end::GAVE_UP,
            )
        });
        rows.push(LockBlockRow {
            owner_ns_tid: 4001,
            frame: Some(3),
            queue: 1,
            unclaimed_ns: 20_000,
            ..row(
                block_part::WAIT,
                4002,
                begin,
                handed + 20_000,
                block_end::ACQUIRED,
            )
        });
        rows.push(LockBlockRow {
            frame: Some(3),
            release_frame: Some(3),
            ..row(
                block_part::HOLD,
                4002,
                handed + 20_000,
                over,
                block_end::RELEASED,
            )
        });
        rows.push(LockBlockRow {
            queue: 2,
            ..row(block_part::BLOCK, 0, begin, over, block_end::FREE)
        });
    }
    rows
}

/// Waits of the server for locks of the kernel.
pub fn kernel_locks() -> Vec<KernelLockRow> {
    let row = |address, kind: &str, access: &str, stack, waits| KernelLockRow {
        process: 1,
        address,
        kind: kind.into(),
        access: access.into(),
        stack,
        waits,
        waited_ns: waits * 700,
        max_ns: 2100,
    };
    vec![
        row(0xffff_8880_1234_5000, "spin", "", Some(1), 40),
        row(0xffff_8880_1234_5000, "spin", "", None, 2),
        row(0xffff_8880_6543_2100, "rwsem", "write", Some(2), 9),
    ]
}

/// What the server did to get memory and give it back.
pub fn memory_places() -> Vec<MemoryPlaceRow> {
    let place = |syscall: &str, pc, stacks| MemoryPlaceRow {
        process: 1,
        syscall: syscall.into(),
        pc,
        stacks,
        ..MemoryPlaceRow::default()
    };
    vec![
        MemoryPlaceRow {
            minor_faults: 900,
            anonymous_faults: 850,
            copied_faults: 50,
            allocated_pages: 910,
            zeroed_pages: 860,
            ..place("", 0x5555_5555_4100, vec![0, 1, 1])
        },
        MemoryPlaceRow {
            calls: 300,
            call_ns: 600_000,
            freed_pages: 880,
            shootdowns: 40,
            remote_flushes: 40,
            remote_ns: 30_000,
            mmap_waits: 2,
            mmap_wait_ns: 9000,
            spins: 30,
            spin_ns: 20_000,
            zone_waits: 10,
            zone_wait_ns: 8000,
            list_waits: 15,
            list_wait_ns: 9000,
            ..place("munmap", 0x5555_5555_4200, vec![1])
        },
        MemoryPlaceRow {
            freed_pages: 30,
            ..place("exit", 0x5555_5555_4300, vec![])
        },
    ]
}

/// What is mapped where.
pub fn mappings() -> Vec<MappingRow> {
    let rows = [(1, SERVER), (1, LIBC), (2, SERVER)];
    rows.map(|(process, path)| MappingRow {
        process,
        start: 0x5555_5555_4000,
        end: 0x5555_5556_4000,
        file_offset: 0x1000,
        path: path.into(),
        build_id: format!("{:040x}", path.len()),
        start_ns: START,
    })
    .to_vec()
}

/// The processes as known at `now`; written again every second.
pub fn processes(now: u64) -> Vec<ProcessRow> {
    let known = [
        (1, 4000, 1, "server"),
        (2, 4100, 4000, "helper"),
        (3, 4200, 1, "busy"),
    ];
    known
        .map(|(process, pid, parent_pid, name)| {
            let ended = process == 2 && now > START + 4 * SECOND;
            ProcessRow {
                process,
                pid,
                ns_pid: pid - 3990,
                parent_pid,
                name: name.into(),
                command: format!("{name} --verbose"),
                exe: format!("/usr/bin/{name}"),
                cgroup: "/system.slice/server.service".into(),
                start_ns: START,
                end_ns: ended.then_some(START + 3_400_000_000),
                exit_status: ended.then_some(0),
            }
        })
        .to_vec()
}

//! The tables: every column of every row, and what it holds.
use crate::column::{Field, Kind, Values};
use crate::rows::*;
use crate::table::{Columns, Table, column_of};
use parquet::schema::types::TypePtr;

macro_rules! table {
    ($row:ident in $table:ident, key $keyed:literal $key:expr, { $($field:ident: $kind:ident),* $(,)? }) => {
        impl Table for $row {
            const NAME: &'static str = stringify!($table);
            const KEYED: bool = $keyed;
            fn key(&self) -> u64 {
                let key: fn(&Self) -> u64 = $key;
                key(self)
            }
        }

        impl Columns for $row {
            fn columns() -> Vec<(TypePtr, Kind)> {
                vec![$(column_of(|row: &Self| &row.$field, stringify!($field), Kind::$kind)),*]
            }
            fn gather<E>(
                rows: &[Self],
                values: &mut Values,
                mut write: impl FnMut(&Values) -> Result<(), E>,
            ) -> Result<(), E> {
                $(
                    values.clear();
                    Field::gather(rows.iter().map(|row| &row.$field), values);
                    write(values)?;
                )*
                Ok(())
            }
            fn scatter(
                rows: &mut [Self],
                values: &mut Values,
                mut read: impl FnMut(&str, &mut Values) -> Result<bool, String>,
            ) -> Result<(), String> {
                $(
                    values.clear();
                    if read(stringify!($field), values)? {
                        Field::scatter(values, rows.iter_mut().map(|row| &mut row.$field))
                            .map_err(|reason| format!(concat!("column ", stringify!($field), ": {}"), reason))?;
                    }
                )*
                Ok(())
            }
            fn heap_bytes(&self) -> usize {
                0 $(+ self.$field.heap_bytes())*
            }
        }
    };
}

table! { ProcessRow in processes, key true |row| row.process.into(), {
    process: Number, pid: Number, ns_pid: Number, parent_pid: Number, name: Word, command: Text,
    exe: Word, cgroup: Word, start_ns: Time, end_ns: Time, exit_status: Number,
} }

table! { ThreadRow in threads, key true |row| row.thread.into(), {
    thread: Number, process: Number, tid: Number, ns_tid: Number, name: Word, start_ns: Time,
    until_ns: Time, ended: Number, running_ns: Amount, runnable_ns: Amount, stolen_ns: Amount, blocked_ns: Amount,
    lost_ns: Amount, voluntary_switches: Amount, involuntary_switches: Amount,
} }

table! { MappingRow in mappings, key false |_| 0, {
    process: Number, start: Address, end: Address, file_offset: Address, path: Word,
    build_id: Word, start_ns: Time,
} }

table! { FrameRow in frames, key true |row| row.frame.into(), {
    frame: Number, kind: Word, module: Word, build_id: Word, address: Address, process: Number,
    spinning: Number,
} }

table! { SymbolRow in symbols, key true |row| u64::from(row.frame) << 32 | u64::from(row.depth), {
    frame: Number, depth: Number, function: Text, file: Word, line: Number, inlined: Number,
} }

table! { StackRow in stacks, key true |row| row.stack.into(), {
    stack: Number, frames: Number, end: Word,
} }

table! { SiteRow in sites, key true |row| row.site.into(), {
    site: Number, thread: Number, reason: Word, syscall: Word, pc: Address, futex: Number,
    operation: Word, timed: Number, shared: Number,
} }

table! { FutexRow in futexes, key true |row| row.futex.into(), {
    futex: Number, process: Number, address: Address, module: Word, build_id: Word, stated: Address,
    symbol: Word, offset: Address,
} }

table! { LockRow in locks, key true |row| row.lock.into(), {
    lock: Number, process: Number, address: Address, kind: Word, mutex_type: Word, acquired: Amount,
    contended: Amount, try_fails: Amount, timeouts: Amount, nested: Amount, since_ns: Time,
    until_ns: Time,
} }

table! { LockBlockRow in lock_blocks, key false |_| 0, {
    block: Number, process: Number, lock: Number, part: Word, ns_tid: Number, start_ns: Time,
    end_ns: Time, end: Word, owner_ns_tid: Number, frame: Number, release_frame: Number,
    blamed_ns: Amount, unclaimed_ns: Amount, queue: Number,
} }

table! { KernelLockRow in kernel_locks, key false |_| 0, {
    process: Number, address: Address, kind: Word, access: Word, stack: Number, waits: Amount,
    waited_ns: Amount, max_ns: Amount,
} }

table! { MemoryPlaceRow in memory_places, key false |_| 0, {
    process: Number, syscall: Word, pc: Address, minor_faults: Amount, major_faults: Amount,
    anonymous_faults: Amount, copied_faults: Amount, file_faults: Amount, stack_faults: Amount,
    huge_faults: Amount, populated_faults: Amount, other_faults: Amount, calls: Amount,
    call_ns: Amount, allocated_pages: Amount, freed_pages: Amount, zeroed_pages: Amount,
    zeroed_huge_pages: Amount, shootdowns: Amount, remote_flushes: Amount, remote_ns: Amount,
    mmap_waits: Amount, mmap_wait_ns: Amount, spins: Amount, spin_ns: Amount, zone_waits: Amount,
    zone_wait_ns: Amount, list_waits: Amount, list_wait_ns: Amount, peak_pages: Amount, stacks: Number,
} }

table! { SiteTimeRow in site_times, key false |_| 0, {
    site: Number, time_ns: Time, blocked_ns: Amount, runnable_ns: Amount, count: Amount,
    max_ns: Amount,
} }

table! { SampleRow in samples, key false |_| 0, {
    time_ns: Time, thread: Number, cpu: Number, state: Word, stack: Number, site: Number,
    weight_ns: Amount,
} }

table! { SliceRow in slices, key false |_| 0, {
    thread: Number, site: Number, start_ns: Time, blocked_ns: Amount, runnable_ns: Amount,
    cpu: Number, stack: Number, waker_tid: Number, waker_thread: Number, waker_name: Word,
    waker_stack: Number, result: Word,
} }

table! { EventRow in events, key false |_| 0, {
    time_ns: Time, thread: Number, kind: Word, detail: Text,
} }

table! { RecordingRow in recordings, key false |_| 0, {
    tool: Word, host: Word, kernel: Word, arch: Word, cpus: Number, target: Text, command_line: Text,
    period_ns: Amount, start_ns: Time, end_ns: Time, start_unix_ns: Time, end_unix_ns: Time,
    exit_code: Number, complete: Number, meta: Text,
} }

table! { ProfileRow in profile, key false |_| 0, {
    process: Word, pid: Number, thread: Word, tid: Number, state: Word, reason: Word, syscall: Word,
    function: Word, stack: Word, weight_ns: Amount,
} }

//! Futexes: the words that threads wait on, how they wait, and how that ended.
use crate::modules::ModuleId;
use dwell_abi::events::*;
use dwell_recording::rows::{FutexRow, operation, result};
use hashbrown::HashMap;

/// How a site waits on its futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// See `dwell_recording::rows::operation`.
    pub name: &'static str,
    /// It has a timeout.
    pub timed: bool,
    /// The word may be shared between processes.
    pub shared: bool,
}

impl Operation {
    /// Reads the `FUTEX_*` of a record; none for anything but a futex wait.
    pub fn of(bits: u16) -> Option<Self> {
        let bits = u32::from(bits);
        let name = match bits & FUTEX_COMMAND {
            0 => operation::WAIT,
            6 => operation::LOCK_PI,
            9 => operation::WAIT_BITSET,
            11 => operation::WAIT_REQUEUE_PI,
            13 => operation::LOCK_PI2,
            FUTEX_WAITV => operation::WAITV,
            FUTEX_WAIT2 => operation::WAIT2,
            _ => operation::OTHER,
        };
        (bits & FUTEX_CALL != 0).then_some(Operation {
            name,
            timed: bits & FUTEX_TIMED != 0,
            shared: bits & FUTEX_PRIVATE == 0,
        })
    }
}

/// How a wait that this kind of waker ended came out, see `dwell_recording::rows::result`; empty for one on
/// no futex, and where it was not seen.
pub fn result(operation: u16, waker_kind: u8, signalled: bool) -> &'static str {
    match waker_kind {
        _ if operation == 0 => "",
        _ if signalled => result::INTERRUPTED,
        WAKER_TASK => result::WOKEN,
        WAKER_IRQ if u32::from(operation) & FUTEX_TIMED != 0 => result::TIMED_OUT,
        _ => "",
    }
}

/// Where in a file's data a word lies.
#[derive(Clone, Debug)]
pub struct DataPlace {
    /// The file.
    pub module: ModuleId,
    /// Its path as the process sees it.
    pub path: String,
    /// Its build id, hex.
    pub build_id: String,
    /// Stated address of the word.
    pub stated: u64,
}

/// The words of a recording.
#[derive(Default)]
pub struct Futexes {
    /// By process and address.
    ids: HashMap<u32, HashMap<u64, u32>>,
    next: u32,
    new: Vec<FutexRow>,
    in_modules: Vec<(ModuleId, FutexRow)>,
}

impl Futexes {
    /// The number of a word of a process.
    pub fn id(&mut self, process: u32, address: u64) -> u32 {
        let of_process = self.ids.entry(process).or_default();
        *of_process.entry(address).or_insert_with(|| {
            let futex = self.next;
            self.next += 1;
            self.new.push(FutexRow {
                futex,
                process,
                address,
                ..FutexRow::default()
            });
            futex
        })
    }

    /// The process is over or runs another program: its addresses mean something else from now on.
    pub fn forget(&mut self, process: u32) {
        self.ids.remove(&process);
    }

    /// Rows of words that are new since the last call. `place` finds the file an address of a process is in.
    pub fn take_new(&mut self, place: impl Fn(u32, u64) -> Option<DataPlace>) -> Vec<FutexRow> {
        let mut rows = std::mem::take(&mut self.new);
        for row in &mut rows {
            if let Some(place) = place(row.process, row.address) {
                row.module = place.path;
                row.build_id = place.build_id;
                row.stated = Some(place.stated);
                self.in_modules.push((place.module, row.clone()));
            }
        }
        rows
    }

    /// The words that lie in a file's data, with the file.
    pub fn in_modules(&self) -> &[(ModuleId, FutexRow)] {
        &self.in_modules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_real_calls() {
        let of = |bits: u32| Operation::of((FUTEX_CALL | bits) as u16).expect("a futex call");
        let plain = of(FUTEX_PRIVATE);
        assert_eq!(
            (plain.name, plain.timed, plain.shared),
            ("wait", false, false)
        );
        let timed = of(9 | FUTEX_PRIVATE | FUTEX_TIMED);
        assert_eq!(
            (timed.name, timed.timed, timed.shared),
            ("wait_bitset", true, false)
        );
        assert_eq!((of(6).name, of(6).shared), ("lock_pi", true));
        assert_eq!(of(13).name, "lock_pi2");
        assert_eq!(of(11).name, "wait_requeue_pi");
        assert_eq!(of(FUTEX_WAITV).name, "waitv");
        assert_eq!(of(FUTEX_WAIT2).name, "wait2");
        assert_eq!(of(1).name, "other", "FUTEX_WAKE");
        assert_eq!(Operation::of(0), None);
    }

    #[test]
    fn results_by_who_ended_the_wait() {
        let of = |operation: u32, waker| {
            [false, true].map(|signalled| result(operation as u16, waker, signalled))
        };
        let timed = FUTEX_CALL | FUTEX_TIMED;
        assert_eq!(of(timed, WAKER_TASK), ["woken", "interrupted"]);
        assert_eq!(of(timed, WAKER_IRQ), ["timed_out", "interrupted"]);
        assert_eq!(of(FUTEX_CALL, WAKER_IRQ), ["", "interrupted"]);
        assert_eq!(of(0, WAKER_TASK), ["", ""], "not a futex");
    }

    #[test]
    fn another_program_has_other_words() {
        let mut futexes = Futexes::default();
        let first = futexes.id(1, 0x1000);
        assert_eq!(futexes.id(1, 0x1000), first);
        assert_ne!(futexes.id(2, 0x1000), first);
        futexes.forget(1);
        assert_ne!(futexes.id(1, 0x1000), first);
        let place = |process, address| {
            (process == 2).then(|| DataPlace {
                module: 7,
                path: "/bin/x".into(),
                build_id: "ab".into(),
                stated: address - 0x400,
            })
        };
        let rows = futexes.take_new(place);
        let stated: Vec<_> = rows.iter().map(|r| r.stated).collect();
        assert_eq!(stated, [None, Some(0xc00), None]);
        assert_eq!(futexes.in_modules().len(), 1);
        assert!(futexes.take_new(place).is_empty());
    }
}

//! Places inside of glibc that have no name, found by their code.
use crate::libc::{GLIBC_MASK, LOAD_FROM_FS, MODRM_BUT_REGISTER};
use dwell_patch::Image;
use std::collections::BTreeSet;

/// `endbr64`
pub(crate) const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The functions that wait for a condition.
const CONDITION_WAITS: [&[u8]; 3] = [
    b"pthread_cond_wait",
    b"pthread_cond_timedwait",
    b"pthread_cond_clockwait",
];

/// Stated address of the function that takes a mutex again at the end of a wait for a condition. It is what
/// those waits call that knows the kinds of mutexes and makes a thread the owner of one.
pub(crate) fn retake(image: &Image<'_>) -> Option<u64> {
    let waits = image
        .symbols()
        .filter(|s| CONDITION_WAITS.contains(&s.name));
    let waits: BTreeSet<u64> = waits.map(|s| s.address).collect();
    let called = waits.iter().flat_map(|&wait| calls(image, wait));
    let found: BTreeSet<u64> = called.filter(|&f| takes_mutex(image, f)).collect();
    let first = found.first().copied();
    first.filter(|_| found.len() == 1)
}

/// Where a function calls to, and some more places that are none.
pub(crate) fn calls(image: &Image<'_>, start: u64) -> Vec<u64> {
    const CALL: u8 = 0xe8;
    let code = code(image, start).unwrap_or_default();
    let calls = code.windows(5).enumerate().filter(|(_, c)| c[0] == CALL);
    calls
        .map(|(at, c)| {
            let distance = i32::from_le_bytes([c[1], c[2], c[3], c[4]]);
            (start + at as u64 + 5).wrapping_add_signed(distance.into())
        })
        .collect()
}

fn takes_mutex(image: &Image<'_>, start: u64) -> bool {
    /// `mov %reg,8(%rdi)`, but for the register.
    const STORE_OWNER: [u8; 3] = [0x89, 0x47, 8];
    let Some(code) = code(image, start) else {
        return false;
    };
    let stores = |c: &[u8]| [c[0], c[1] & MODRM_BUT_REGISTER, c[2]] == STORE_OWNER;
    code.windows(4).any(|c| c == GLIBC_MASK)
        && code.windows(2).any(|c| c == LOAD_FROM_FS)
        && code.windows(3).any(stores)
}

/// Bytes from the start of `pthread_spin_lock` to the first instruction of the loop in which it waits; none
/// where its code is another than x86-64 glibc's, which has nothing on the stack.
pub(crate) fn spin_loop(image: &Image<'_>) -> Option<u32> {
    const TAKE: [u8; 4] = [0xf0, 0xff, 0x0f, 0x75]; // lock decl (%rdi); jne
    const PAUSE: [u8; 2] = [0xf3, 0x90];
    let symbol = image.symbols().find(|s| s.name == b"pthread_spin_lock")?;
    let code = code(image, symbol.address)?;
    let begin = if code.starts_with(&LANDING_PAD) {
        LANDING_PAD.len()
    } else {
        0
    };
    let [jump, rest @ ..] = code.get(begin..)?.strip_prefix(&TAKE)? else {
        return None;
    };
    let found = rest.get(usize::from(*jump)..)?.starts_with(&PAUSE);
    found.then_some((begin + TAKE.len() + 1) as u32 + u32::from(*jump))
}

fn code<'i>(image: &'i Image<'_>, start: u64) -> Option<&'i [u8]> {
    let function = image.function(start).ok()?;
    let len = (function.end - function.start) as usize;
    image.file().bytes_at(start, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_patch::plan::{Place, Refusal, Request, past_entry, plan};

    /// The C library of this very process.
    fn libc() -> Vec<u8> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let line = maps.lines().find(|l| l.contains("libc.so")).expect("libc");
        std::fs::read(&line[line.find('/').expect("a path")..]).expect("libc")
    }

    #[test]
    fn is_found_in_the_libc_of_this_process() {
        let data = libc();
        let image = Image::parse(&data).expect("an ELF file");
        let retake = retake(&image).expect("it takes mutexes again");
        let named = |name: &[u8]| {
            image
                .symbols()
                .any(|s| s.address == retake && s.name == name)
        };
        assert!(!named(b"pthread_mutex_lock") && !named(b"pthread_mutex_unlock"));
        let offset = spin_loop(&image).expect("glibc's spin lock");
        let symbol = image.symbols().find(|s| s.name == b"pthread_spin_lock");
        let function = symbol.expect("a symbol").address;
        let at = function + u64::from(offset);
        assert_eq!(image.file().bytes_at(at, 2), Some(&[0xf3, 0x90][..]));
        // Its loop leads to its entry, which is hooked for all passes.
        assert_eq!(
            refused(&image, function, Place::Entry),
            Some(Refusal::LoopsToEntry)
        );
        assert_eq!(refused(&image, function, Place::Head), None);
    }

    fn refused(image: &Image<'_>, function: u64, place: Place) -> Option<Refusal> {
        let requests = [Request { function, place }];
        plan(image, &requests).refused.first().map(|(_, why)| *why)
    }

    /// Where the planner refuses the entry of a function because of its own jumps, it has no word against what
    /// is hooked instead.
    #[test]
    fn what_is_hooked_past_an_entry_can_be_overwritten() {
        let data = libc();
        let image = Image::parse(&data).expect("an ELF file");
        let mut found = 0;
        for symbol in image.symbols().filter(|s| s.name.starts_with(b"pthread_")) {
            let Some(offset) = past_entry(&image, symbol.address) else {
                continue;
            };
            let refused = |place| refused(&image, symbol.address, place);
            assert_eq!(refused(Place::Entry), Some(Refusal::JumpInto));
            assert_eq!(refused(Place::Offset(offset)), None);
            found += 1;
        }
        println!("{found} functions");
    }
}

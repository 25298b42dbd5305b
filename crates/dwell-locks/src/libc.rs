//! What is known of a process' libc, from its own file.
use crate::inside::{LANDING_PAD, calls};
use dwell_elf::ElfFile;
use dwell_patch::Image;
use dwell_patch::plan::Function;

/// Whose functions they are, and what the agent may do in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// glibc, whose plain mutex the agent takes by itself.
    Glibc(Glibc),
    /// musl, likewise.
    Musl,
    /// The real functions do all the work.
    Unknown,
}

/// What is known of a glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glibc {
    /// Distance of a thread's number from its fs base, bytes.
    pub tid_offset: u64,
    /// Distance of the head of a thread's list of robust mutexes from there, bytes, where the agent takes those by itself.
    pub robust_offset: Option<u32>,
    /// Whether the agent takes its read-write locks by itself, too.
    pub has_rwlock: bool,
    /// How a thread knows that it is to be cancelled, where the agent takes semaphores by itself.
    pub semaphore: Option<Cancellation>,
}

/// How a glibc thread knows that it is to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancellation {
    /// Distance of the word that tells from the thread's fs base, bytes.
    pub offset: u32,
    /// Its bits that tell.
    pub mask: u32,
    /// What they are then.
    pub value: u32,
}

/// The function whose code tells the two apart.
const LOCK: &[u8] = b"pthread_mutex_lock";

/// `lock cmpxchg %reg,(%rdi)` and `lock cmpxchg %reg,4(%rdi)`, without their last bytes.
const LOCKED_CMPXCHG: [u8; 3] = [0xf0, 0x0f, 0xb1];
/// The register of a ModRM byte does not matter.
pub(crate) const MODRM_BUT_REGISTER: u8 = 0xc7;
const AT_RDI: u8 = 0x07;
const AT_RDI_PLUS: u8 = 0x47;
/// The mask of a glibc mutex' kind, as it stands in an instruction.
pub(crate) const GLIBC_MASK: [u8; 4] = 0x17fu32.to_le_bytes();
/// The word of a taken musl mutex, as it stands in an instruction.
const MUSL_TAKEN: [u8; 4] = 16u32.to_le_bytes();
/// The bits of a musl mutex that are its type: `and $15,%eax`, `test $15,%al` or `testb $15,(%rdi)`.
const MUSL_TYPE: [&[u8]; 3] = [&[0x83, 0xe0, 0x0f], &[0xa8, 0x0f], &[0xf6, 0x07, 0x0f]];

/// `mov %fs:…,%reg`, 32 bits, its first bytes.
pub(crate) const LOAD_FROM_FS: [u8; 2] = [0x64, 0x8b];
/// An address that is a number: ModRM, but for the register, and SIB.
const ABSOLUTE: [u8; 2] = [0x04, 0x25];

impl Libc {
    /// What a file is that defines the lock functions; none when it does not. Recognised by its code:
    /// a libc that does not lock as we know it is left to itself.
    pub fn of(image: &Image<'_>) -> Option<Libc> {
        address_of(image.file(), LOCK)?;
        let Some(code) = code_of(image, LOCK) else {
            return Some(Libc::Unknown);
        };
        let exchanges = |modrm: u8, displacement: &[u8]| {
            code.windows(4 + displacement.len()).any(|c| {
                c[..3] == LOCKED_CMPXCHG
                    && c[3] & MODRM_BUT_REGISTER == modrm
                    && &c[4..] == displacement
            })
        };
        let contains = |bytes: &[u8]| code.windows(bytes.len()).any(|c| c == bytes);
        if exchanges(AT_RDI, &[]) && contains(&GLIBC_MASK) {
            let known = |tid_offset| {
                Libc::Glibc(Glibc {
                    tid_offset,
                    robust_offset: robust_offset(image),
                    has_rwlock: has_known_rwlock(image),
                    semaphore: cancellation(image).filter(|_| has_known_semaphore(image)),
                })
            };
            return Some(tid_offset(code).map_or(Libc::Unknown, known));
        }
        let tests_type = MUSL_TYPE.iter().any(|test| contains(test));
        if exchanges(AT_RDI_PLUS, &[4]) && contains(&MUSL_TAKEN) && tests_type {
            return Some(Libc::Musl);
        }
        Some(Libc::Unknown)
    }
}

/// The code of a function.
fn code_of<'d>(image: &Image<'d>, name: &[u8]) -> Option<&'d [u8]> {
    let Function { start, end } = image.function(address_of(image.file(), name)?).ok()?;
    image.file().bytes_at(start, (end - start) as usize)
}

/// Whether glibc's read-write locks are those it has had since 2.25: readers are counted in steps of 8 by one
/// locked instruction, and a writer that finds no reader makes the word at 8 one.
fn has_known_rwlock(image: &Image<'_>) -> bool {
    const ADDS_READER: [u8; 8] = [0xb8, 8, 0, 0, 0, 0xf0, 0x0f, 0xc1]; // mov $8,%eax; lock xadd %eax,…
    const STORES: u8 = 0xc7; // movl …,8(%reg)
    const PHASE: [u8; 5] = [8, 1, 0, 0, 0];
    let adds = |code: &[u8]| code.windows(8).any(|c| c == ADDS_READER);
    let stores = |code: &[u8]| code.windows(7).any(|c| c[0] == STORES && c[2..] == PHASE);
    code_of(image, b"pthread_rwlock_rdlock").is_some_and(adds)
        && code_of(image, b"pthread_rwlock_wrlock").is_some_and(stores)
}

/// Whether glibc's semaphores are those it has had since 2.21: one 64-bit exchange takes one from the value in the
/// lower half of the word, after a look whether the thread is to be cancelled.
fn has_known_semaphore(image: &Image<'_>) -> bool {
    const LESS_ONE: [u8; 4] = [0x48, 0x8d, 0x50, 0xff]; // lea -1(%rax),%rdx
    const EXCHANGE: [u8; 4] = [0xf0, 0x48, 0x0f, 0xb1]; // lock cmpxchg %…,…
    let (Some(code), Some(test)) = (
        code_of(image, b"sem_wait"),
        address_of(image.file(), TEST_CANCEL),
    ) else {
        return false;
    };
    let takes = |c: &[u8]| c[..4] == LESS_ONE && c[4..] == EXCHANGE;
    let wait = address_of(image.file(), b"sem_wait").unwrap_or(0);
    code.windows(8).any(takes) && calls(image, wait).contains(&test)
}

/// The function in which a thread ends that is to be cancelled.
const TEST_CANCEL: &[u8] = b"pthread_testcancel";

/// How a thread knows that it is to be cancelled: what glibc looks at for that.
fn cancellation(image: &Image<'_>) -> Option<Cancellation> {
    const SELF_TO_RDX: [u8; 9] = [0x64, 0x48, 0x8b, 0x14, 0x25, 0x10, 0, 0, 0]; // mov %fs:16,%rdx
    let code = code_of(image, TEST_CANCEL)?;
    let code = code.strip_prefix(&LANDING_PAD).unwrap_or(code);
    let found = match code.strip_prefix(&SELF_TO_RDX) {
        Some([0x8b, 0x82, rest @ ..]) => rest, // mov …(%rdx),%eax
        _ => code.strip_prefix(&[0x64, 0x8b, 0x04, 0x25])?, // mov %fs:…,%eax
    };
    // and $…,%eax; cmp $…,%eax; je
    let [a, b, c, d, 0x83, 0xe0, mask, 0x83, 0xf8, value, 0x74, ..] = *found else {
        return None;
    };
    let extended = |byte: u8| i32::from(byte as i8) as u32;
    Some(Cancellation {
        offset: u32::from_le_bytes([a, b, c, d]),
        mask: extended(mask),
        value: extended(value),
    })
}

fn address_of(file: &ElfFile<'_>, name: &[u8]) -> Option<u64> {
    file.symbols().find(|s| s.name == name).map(|s| s.address)
}

/// Whether glibc may elide locks of a process: where the processor has transactions, and since 2.28, when `mtx_lock` came,
/// only if the environment that the process was started with asks for it (glibc's manual, "Elision Tunables").
pub(crate) fn may_elide(pid: i32, image: &Image<'_>) -> bool {
    const ASKS: &[u8] = b"glibc.elision.enable=1";
    let asks = |environment: Vec<u8>| environment.windows(ASKS.len()).any(|w| w == ASKS);
    let is_asked = || std::fs::read(format!("/proc/{pid}/environ")).map_or(true, asks);
    let is_old = || address_of(image.file(), b"mtx_lock").is_none();
    is_x86_feature_detected!("rtm") && (is_old() || is_asked())
}

/// Where a glibc thread keeps its number: what the function loads from there makes it the mutex' owner.
/// The agent compares it with the kernel's in every thread before it relies on it.
fn tid_offset(code: &[u8]) -> Option<u64> {
    let mut loads = code.windows(8).filter_map(|c| {
        let is_load = c[..2] == LOAD_FROM_FS && [c[2] & MODRM_BUT_REGISTER, c[3]] == ABSOLUTE;
        let offset = u32::from_le_bytes([c[4], c[5], c[6], c[7]]);
        is_load.then_some(u64::from(offset))
    });
    let first = loads.next()?;
    loads.all(|other| other == first).then_some(first)
}

/// Where a glibc thread has the head of its list of robust mutexes, which the kernel walks when it dies. The third word of
/// the head is set to 0 after each operation, and the first is what the next mutex is linked to.
fn robust_offset(image: &Image<'_>) -> Option<u32> {
    const CLEARS: [u8; 5] = [0x64, 0x48, 0xc7, 0x04, 0x25]; // movq $0,%fs:…
    const LOADS: [[u8; 2]; 2] = [[0x64, 0x48], [0x64, 0x4c]]; // mov %fs:…,%reg
    const PENDING_AT: u32 = 16;
    let code = code_of(image, b"pthread_mutex_trylock")?;
    let mut cleared = code.windows(13).filter_map(|c| {
        let at = c.strip_prefix(&CLEARS)?.strip_suffix(&[0; 4])?;
        Some(u32::from_le_bytes(at.try_into().ok()?))
    });
    let pending = cleared.next()?;
    let head = pending.checked_sub(PENDING_AT)?;
    let loads_head = code.windows(9).any(|c| {
        LOADS.iter().any(|l| c.starts_with(l))
            && c[2] == 0x8b
            && [c[3] & MODRM_BUT_REGISTER, c[4]] == ABSOLUTE
            && c[5..] == head.to_le_bytes()
    });
    (loads_head && cleared.all(|other| other == pending)).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that is to be cancelled, and not before, says so where it is looked for. It must end when it waits
    /// for a semaphore next, so it does not return here.
    fn assert_cancellation_tells(at: Cancellation) {
        extern "C" fn cancelled(at: *mut ::libc::c_void) -> *mut ::libc::c_void {
            unsafe extern "C" {
                fn pthread_testcancel();
            }
            // SAFETY: whoever made this thread waits for it, and lends it that.
            let at = unsafe { &mut *at.cast::<(Cancellation, [bool; 2])>() };
            // SAFETY: a thread's handle is the address of its control block, which has the word in it.
            let is_to_end = |c: Cancellation| unsafe {
                let word = *((::libc::pthread_self() + u64::from(c.offset)) as *const u32);
                word & c.mask == c.value
            };
            at.1[0] = is_to_end(at.0);
            // SAFETY: of this thread; nothing here needs to be dropped.
            unsafe {
                ::libc::pthread_cancel(::libc::pthread_self());
                at.1[1] = is_to_end(at.0);
                pthread_testcancel();
            }
            std::process::abort()
        }
        let mut told = (at, [true, false]);
        // SAFETY: `told` outlives the thread, which is waited for.
        unsafe {
            let mut thread = 0;
            let to = std::ptr::from_mut(&mut told).cast();
            ::libc::pthread_create(&mut thread, std::ptr::null(), cancelled, to);
            ::libc::pthread_join(thread, std::ptr::null_mut());
        }
        assert_eq!(told.1, [false, true], "{at:?}");
    }

    /// What the C library of this very process is, and what it says of this thread.
    #[test]
    fn knows_its_own_libc() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let line = maps.lines().find(|l| l.contains("libc.so")).expect("libc");
        let data = std::fs::read(&line[line.find('/').expect("a path")..]).expect("libc");
        let image = Image::parse(&data).expect("an ELF file");
        let Some(Libc::Glibc(Glibc {
            tid_offset,
            robust_offset,
            has_rwlock,
            semaphore,
        })) = Libc::of(&image)
        else {
            panic!("{:?}", Libc::of(&image));
        };
        assert!(has_rwlock);
        assert_cancellation_tells(semaphore.expect("glibc's semaphores are known"));
        // SAFETY: a thread's handle is the address of its control block, which holds its number.
        let tid = unsafe { *((::libc::pthread_self() + tid_offset) as *const i32) };
        // SAFETY: takes no arguments.
        assert_eq!(tid, unsafe { ::libc::gettid() });
        let (mut head, mut len) = (0u64, 0usize);
        // SAFETY: of this thread, into two words of its own.
        let told = unsafe { ::libc::syscall(::libc::SYS_get_robust_list, 0, &mut head, &mut len) };
        assert_eq!(told, 0);
        // SAFETY: takes no arguments.
        let thread = unsafe { ::libc::pthread_self() };
        assert_eq!(robust_offset.map(u64::from), Some(head - thread));
    }
}

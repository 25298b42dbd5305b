//! What to hook in a libc.
use crate::hooks::{
    DESTROYS, FORBIDS, FUNCTIONS, Function, LEAVE, LEAVE_LOCK, LEAVE_SPIN, MAKES, RETAKE,
    SPIN_LOCK, SPIN_QUICK, SPINS, UNLOCK,
};
use crate::inside::{retake, spin_loop};
use crate::libc::Libc;
use crate::locks::has_steady_clock;
use dwell_patch::plan::{Place, keeps_first_argument, past_entry};
use dwell_patch::process::{FunctionAt, Module};
use dwell_patch::{Hook, Image, PatchError, Probe};

/// Hooks, and whose they are.
#[derive(Default)]
pub(crate) struct Wanted {
    /// The name of the function of each of `probes`.
    pub names: Vec<&'static str>,
    pub probes: Vec<Probe>,
}

impl Wanted {
    /// Everything that is hooked in the file of a libc; what takes a mutex again after a wait for a condition only
    /// when that is wanted.
    pub fn of(module: &Module, libc: Libc, with_retake: bool) -> Result<Wanted, PatchError> {
        let image = module.image()?;
        let mut wanted = Wanted::default();
        let mut add = |name, function, place, hook| {
            wanted.names.push(name);
            wanted.probes.push(Probe {
                file: module.path().to_owned(),
                function,
                place,
                hook,
            });
        };
        let spin_loop = spin_loop(&image).filter(|_| matches!(libc, Libc::Glibc(_)));
        let sees_spinning = spin_loop.is_some() || libc == Libc::Musl;
        let releases = [&UNLOCK, &LEAVE_LOCK].map(|r| (libc != Libc::Unknown).then_some(r));
        let releases = releases.into_iter().flatten();
        let releases = releases.chain(sees_spinning.then_some(&LEAVE_SPIN));
        for function in FUNCTIONS.iter().chain(releases) {
            for (place, hook) in places(&image, function, libc) {
                let at = FunctionAt::Name(function.name.to_owned());
                add(function.name, at, place, hook);
            }
        }
        let uncounted = [
            (MAKES.0.as_slice(), MAKES.1),
            (&DESTROYS.0, DESTROYS.1),
            (&FORBIDS.0, FORBIDS.1),
        ];
        for (names, hook) in uncounted {
            for &name in names {
                add(name, FunctionAt::Name(name.to_owned()), Place::Entry, hook);
            }
        }
        if let Some(offset) = spin_loop {
            // Without events it is not known whether who takes it has waited for it.
            let quick = has_steady_clock().then_some(SPIN_QUICK);
            for (place, hook) in [(Place::Offset(offset), SPINS)].into_iter().chain(quick) {
                let at = FunctionAt::Name(SPIN_LOCK.to_owned());
                add(SPIN_LOCK, at, place, hook);
            }
        }
        if let Some(address) = retake(&image).filter(|_| with_retake && libc != Libc::Unknown) {
            for (place, hook) in [(Place::Entry, RETAKE.entry(libc)), (Place::Rets, LEAVE)] {
                add(RETAKE.name, FunctionAt::Address(address), place, hook);
            }
        }
        Ok(wanted)
    }

    /// Whether what takes a mutex again after a wait for a condition is wanted.
    pub fn has_retake(&self) -> bool {
        self.probes.iter().any(is_retake)
    }
}

/// Whether a probe is at what takes a mutex again after a wait for a condition: it alone has no name.
pub(crate) fn is_retake(probe: &Probe) -> bool {
    matches!(probe.function, FunctionAt::Address(_))
}

/// Whether what passes a hook is counted there alone.
pub(crate) fn is_counted(probe: &Probe) -> bool {
    ![MAKES.1, DESTROYS.1, FORBIDS.1, SPIN_QUICK.1].contains(&probe.hook)
}

/// Where a function is hooked, and how.
fn places(image: &Image<'_>, function: &Function, libc: Libc) -> Vec<(Place, Hook)> {
    let named = image.symbols();
    let named = named.filter(|s| s.name == function.name.as_bytes());
    let addresses: Vec<u64> = named.map(|s| s.address).collect();
    let keeps = addresses.iter().all(|&a| keeps_first_argument(image, a));
    if let Some(result) = function.result(libc).filter(|_| keeps) {
        return vec![(Place::Rets, result)];
    }
    let entry = (Place::Entry, function.entry(libc));
    if function.is_release() {
        return vec![entry];
    }
    let passed = function.passed().and_then(|hook| {
        let mut offsets = addresses.iter().map(|&a| past_entry(image, a));
        let offset = offsets.next()??;
        let is_same = offsets.all(|other| other == Some(offset));
        is_same.then_some((Place::Offset(offset), hook))
    });
    vec![passed.unwrap_or(entry), (Place::Rets, LEAVE)]
}

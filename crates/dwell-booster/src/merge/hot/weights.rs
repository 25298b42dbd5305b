//! A profile's places as functions of the image.
use super::report::{HotReport, Obstacle};
use crate::Refusal;
use crate::merge::Merge;
use crate::merge::direct::functions;
use crate::profile::{Place, Profile};
use std::collections::BTreeMap;

/// A function as call frame information gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Image address.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// Index of the module.
    pub module: usize,
}

/// The functions of all merged modules, by address.
pub(crate) fn functions_of(merge: &Merge<'_, '_>) -> Result<Vec<Function>, Refusal> {
    let mut all = Vec::new();
    for (module, base) in merge.layout.merged() {
        let found = functions::of(&merge.closure.modules[module])?;
        all.extend(found.into_iter().map(|(stated, len)| Function {
            at: stated + base,
            len,
            module,
        }));
    }
    all.sort_unstable_by_key(|f| f.at);
    Ok(all)
}

/// Index of the function that holds an image address.
pub(crate) fn holding(functions: &[Function], at: u64) -> Option<usize> {
    let index = functions.partition_point(|f| f.at <= at).checked_sub(1)?;
    (at - functions[index].at < functions[index].len).then_some(index)
}

/// Time by function, and by (caller, callee); all are indices.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    pub functions: BTreeMap<usize, u64>,
    pub calls: BTreeMap<(usize, usize), u64>,
}

impl Weights {
    /// Of what was recorded in the very files that are merged.
    pub(crate) fn of(
        merge: &Merge<'_, '_>,
        functions: &[Function],
        profile: &Profile,
        report: &mut HotReport,
    ) -> Self {
        let bases = bases(merge, profile, report);
        let image = |place: &Place| {
            let base = bases.get(place.module).copied().flatten()?;
            Some(place.address.wrapping_add(base))
        };
        let mut weights = Weights::default();
        for (place, &time) in profile.samples.iter().filter(|(_, time)| **time > 0) {
            let Some(at) = image(place) else { continue };
            report.time_ns = report.time_ns.saturating_add(time);
            match holding(functions, at) {
                Some(index) => *weights.functions.entry(index).or_default() += time,
                None => report.left.entry(Obstacle::NoFrame).or_default().add(time),
            }
        }
        for ((from, to), &time) in &profile.calls {
            let ends = [from, to].map(|place| holding(functions, image(place)?));
            if let [Some(from), Some(to)] = ends {
                *weights.calls.entry((from, to)).or_default() += time;
            }
        }
        weights
    }
}

/// By a profile's module: the base of the merged one that is the same build.
fn bases(merge: &Merge<'_, '_>, profile: &Profile, report: &mut HotReport) -> Vec<Option<u64>> {
    let modules = &merge.closure.modules;
    let mut bases = Vec::new();
    for profiled in &profile.modules {
        let mut merged = merge.layout.merged();
        let same = |id: &[u8]| !id.is_empty() && id == profiled.build_id;
        let found = merged.find(|&(index, _)| modules[index].elf.build_id().is_some_and(same));
        bases.push(found.map(|(_, base)| base));
        let named = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let mut merged = merge.layout.merged();
        if found.is_none()
            && merged.any(|(index, _)| named(&modules[index].path) == named(&profiled.path))
        {
            report.other_builds.push(profiled.path.clone());
        }
    }
    bases
}

//! Branches anywhere in the merged modules that lead into a copied function: they lead to the copy.
use super::clones::{Clones, distance};
use super::weights::Function;
use crate::merge::direct::{Site, code};
use crate::merge::image::Image;
use std::collections::BTreeMap;

/// The changed instructions by their function: (address, length). Those within `taken`, which are in order, are gone.
pub(crate) fn branches(
    image: &Image,
    functions: &[Function],
    clones: &Clones,
    taken: &[Site],
) -> BTreeMap<(u64, u64), Vec<Site>> {
    let mut all = BTreeMap::new();
    for &Function { at, len, .. } in functions {
        let Some(bytes) = image.bytes_at(at, len) else {
            continue;
        };
        let instructions = code::instructions(at, bytes).unwrap_or_default();
        let sites: Vec<Site> = instructions
            .into_iter()
            .filter_map(|range| branch(at + range.start as u64, &bytes[range], clones))
            .filter(|site| !is_taken(taken, site.at))
            .collect();
        if !sites.is_empty() {
            all.insert((at, len), sites);
        }
    }
    all
}

/// The branch that leads to the copy instead, if it is one of a 32-bit distance to a copied instruction.
fn branch(at: u64, old: &[u8], clones: &Clones) -> Option<Site> {
    // What calls became that went through a place has a prefix.
    let bare = old.strip_prefix(&[0x67]).unwrap_or(old);
    if code::form(bare) != Some(code::Form::Branch) {
        return None;
    }
    let target = code::reference(at, old);
    let copy = clones.lead(target);
    if copy == target {
        return None;
    }
    let next = at + old.len() as u64;
    let bytes = [&old[..old.len() - 4], &distance(next, copy)?].concat();
    Some(Site { at, bytes })
}

fn is_taken(taken: &[Site], at: u64) -> bool {
    let next = taken.partition_point(|t| t.at <= at);
    let before = next.checked_sub(1).map(|i| &taken[i]);
    before.is_some_and(|t| at < t.at + t.bytes.len() as u64)
}

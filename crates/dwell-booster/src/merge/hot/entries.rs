//! Jumps at the entries of originals: who calls through a pointer arrives at the copy, too.
//!
//! The address of a function stays the original's, since addresses are compared. Its first bytes can become a
//! jump where nothing enters them but at the first: `dwell-patch` looks through the whole file for that.
use super::clones::{Clones, distance};
use crate::merge::Merge;
use crate::merge::direct::{Direct, Site};
use dwell_patch::plan::{Image, Place, Request, plan};
use iced_x86::Instruction;
use std::ops::Range;

/// What a call for nothing meets: behind the jump nothing is reached.
const TRAP: u8 = 0xcc;

/// The jumps, by address.
pub(crate) fn entries(merge: &Merge<'_, '_>, clones: &Clones, direct: &Direct) -> Vec<Site> {
    let mut sites = Vec::new();
    for (index, base) in merge.layout.merged() {
        let module = &merge.closure.modules[index];
        let range = module.start() + base..module.end() + base;
        let originals = clones.iter().filter(|c| range.contains(&c.body.at));
        let requests: Vec<Request> = originals
            .map(|c| Request {
                function: c.body.at - base,
                place: Place::Entry,
            })
            .collect();
        if requests.is_empty() {
            continue;
        }
        let Ok(image) = Image::parse(module.elf.data()) else {
            continue;
        };
        let mut named: Vec<u64> = image.symbols().map(|s| s.address).collect();
        named.sort_unstable();
        for window in plan(&image, &requests).windows {
            let inside = window.inside();
            let next = named.partition_point(|&name| name < inside.start);
            if named.get(next).is_some_and(|name| inside.contains(name)) {
                continue;
            }
            let range = window.start() + base..inside.end + base;
            let at_entry = window.function.start == requests[window.sites[0].request].function;
            if at_entry && direct.changed_at(&range).is_none() {
                sites.extend(jump(clones, window.function.start + base, range));
            }
        }
    }
    sites.sort_unstable_by_key(|s| s.at);
    sites
}

/// A jump from the window at the entry of `function`, perhaps behind an `endbr64`, to the same place of the copy.
fn jump(clones: &Clones, function: u64, window: Range<u64>) -> Option<Site> {
    const ENDBR64: u64 = 4;
    let (clone, to) = clones.copy_of(window.start)?;
    let body = &clone.body;
    let at_entry = body.at == function && window.start - function <= ENDBR64;
    if !at_entry || !body.is_boundary(window.start) {
        return None;
    }
    // A no-op behind a jump may be overwritten in part: the rest of it goes, too, so that what is read is in step.
    let ends = body.instructions.iter().map(Instruction::next_ip);
    let end = ends.into_iter().find(|&end| end >= window.end)?;
    let mut bytes = vec![0xe9];
    bytes.extend(distance(window.start + 5, to)?);
    bytes.resize((end - window.start) as usize, TRAP);
    Some(Site {
        at: window.start,
        bytes,
    })
}

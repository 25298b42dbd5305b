//! Hot functions copied together: what a recording names hot lies in few pages, and one huge page may hold it.
//!
//! Originals stay where they are, whole and valid. A copy differs from its original by the distances to what is
//! not copied with it; its call frame information is copied, too, and its symbols. Calls and jumps of all merged
//! modules go to the copy; addresses that are compared stay the original's, whose first bytes become a jump to
//! the copy where nothing else enters them.
mod body;
mod branches;
mod clones;
mod entries;
mod frames;
mod order;
mod report;
mod switches;
mod tables;
mod verify;
mod weights;

pub(crate) use clones::Clones;
pub use report::{HotReport, Obstacle, Share};
pub(crate) use verify::verify;

use super::Merge;
use super::direct::{Direct, Site, code_of};
use super::exports::{Export, Place};
use super::image::{Image, Load, R, W, X};
use super::sections::Section;
use crate::profile::Profile;
use crate::{HUGE, PAGE, Refusal};
use body::Body;
use object::elf;
use std::collections::{BTreeMap, BTreeSet};
use tables::Table;
use weights::{Function, Weights};

/// The copies and all that leads to them.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    pub clones: Clones,
    /// The range of the image that holds the copies: its address and bytes; empty when there are none.
    pub at: u64,
    pub run: Vec<u8>,
    /// Branches that lead to copies now, by their function.
    pub sites: BTreeMap<(u64, u64), Vec<Site>>,
    /// Jumps at the entries of originals.
    pub entries: Vec<Site>,
    pub report: HotReport,
}

impl Hot {
    /// Chooses, orders and copies functions of an image whose calls are direct where they can be.
    pub(crate) fn of(
        merge: &Merge<'_, '_>,
        image: &Image,
        direct: &Direct,
        profile: &Profile,
    ) -> Result<Self, Refusal> {
        let mut report = HotReport::default();
        let functions = weights::functions_of(merge)?;
        let weights = Weights::of(merge, &functions, profile, &mut report);
        let (bodies, nodes) = bodies(merge, image, &functions, &weights, &mut report);
        let order = order::order(&nodes, &calls_between(&bodies, &functions, &weights));
        let mut bodies: Vec<Option<Body>> = bodies.into_iter().map(Some).collect();
        let bodies = order.into_iter().filter_map(|i| bodies[i].take()).collect();
        report.huge = merge.layout.start.is_multiple_of(HUGE);
        let align = if report.huge { HUGE } else { PAGE };
        let at = image.end().next_multiple_of(align);
        let mut clones = Clones::place(at, bodies);
        clones.add_tables(tables(image, &clones, &mut report));
        if clones.is_empty() {
            report.huge = false;
            return Ok(Hot {
                report,
                ..Hot::default()
            });
        }
        let program = &merge.closure.modules[0].path;
        let mut run = clones.bytes(at).ok_or_else(|| {
            Refusal::unsupported(program, "its hot functions would be out of reach")
        })?;
        run.resize(run.len().next_multiple_of(align as usize), 0);
        let entries = entries::entries(merge, &clones, direct);
        let sites = branches::branches(image, &functions, &clones, &entries);
        report.cloned.functions = clones.len();
        report.code_bytes = clones.iter().map(clones::Clone::len).sum();
        report.entries = entries.len();
        report.branches = sites.values().map(Vec::len).sum();
        report.tables = clones.tables.len();
        Ok(Hot {
            clones,
            at,
            run,
            sites,
            entries,
            report,
        })
    }

    /// Adds the copies to the image, and changes what leads to them.
    pub(crate) fn apply(&self, image: &mut Image) {
        if self.run.is_empty() {
            return;
        }
        let align = if self.report.huge { HUGE } else { PAGE };
        image.append_aligned(R | X, &self.run, align);
        for site in self.sites.values().flatten().chain(&self.entries) {
            image.put(site.at, &site.bytes);
        }
    }

    /// Names of copies, for who asks what function an address is in (`dladdr`, `backtrace`).
    pub(crate) fn named<'a>(&self, exports: &[Export<'a>]) -> Vec<Export<'a>> {
        let functions = exports.iter().filter(|e| e.place == Place::Image);
        let copies = functions.filter_map(|export| {
            let (clone, at) = self.clones.copy_of(export.value)?;
            let mut copy = export.clone();
            (copy.value, copy.copy, copy.hidden, copy.version) = (at, true, true, None);
            // The loader compares names where hashes are the same but for the lowest bit.
            let apart = (copy.hash() ^ export.hash()) >> 1 != 0;
            (apart && clone.at == at).then_some(copy)
        });
        copies.collect()
    }

    /// Ranges of changed bytes of the originals, not in order.
    pub(crate) fn changed(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        let sites = self.sites.values().flatten().chain(&self.entries);
        sites.map(|s| s.at..s.at + s.bytes.len() as u64)
    }

    /// The section that holds the copies.
    pub(crate) fn section(&self, image: &Image) -> Option<Section> {
        (!self.run.is_empty()).then(|| Section {
            name: ".text.hot".into(),
            kind: elf::SHT_PROGBITS.0,
            flags: elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0,
            at: self.at,
            offset: self.at - image.start,
            size: self.run.len() as u64,
            link: 0,
            info: 0,
            entry: 0,
        })
    }
}

/// The jump tables that are copied with their functions.
fn tables(image: &Image, clones: &Clones, report: &mut HotReport) -> Vec<Table> {
    let file = Constants {
        image,
        code: code_of(image),
    };
    let mut all = Vec::new();
    for clone in clones.iter() {
        let (tables, back) = switches::switches(&clone.body, &file);
        all.extend(tables);
        report.jumps_back += back;
    }
    all
}

/// The image before anything is copied.
struct Constants<'a> {
    image: &'a Image,
    code: Vec<(u64, u64)>,
}

impl switches::File for Constants<'_> {
    fn constant(&self, at: u64) -> Option<&[u8]> {
        let holds = |l: &&Load| l.at <= at && at < l.at + l.file_size;
        let load = self.image.loads.iter().find(holds)?;
        let constant = load.flags & W == 0;
        constant.then(|| self.image.bytes_at(at, load.at + load.file_size - at))?
    }

    fn is_code(&self, at: u64) -> bool {
        let next = self.code.partition_point(|&(start, _)| start <= at);
        next.checked_sub(1).is_some_and(|i| at < self.code[i].1)
    }
}

/// The functions that can be copied, and their weights; the others are told by reason.
fn bodies(
    merge: &Merge<'_, '_>,
    image: &Image,
    functions: &[Function],
    weights: &Weights,
    report: &mut HotReport,
) -> (Vec<Body>, Vec<order::Node>) {
    let mut movable: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    let (mut bodies, mut nodes) = (Vec::new(), Vec::new());
    for (&index, &weight) in &weights.functions {
        let Function { at, len, module } = functions[index];
        let base = merge.layout.bases[module].unwrap_or(0);
        let frames = movable.entry(module).or_insert_with(|| {
            let module = &merge.closure.modules[module];
            frames::movable(module).unwrap_or_default()
        });
        let body = match image.bytes_at(at, len) {
            _ if !frames.contains(&(at - base)) => Err(Obstacle::Frame),
            Some(bytes) => Body::read(at, bytes),
            None => Err(Obstacle::Unreadable),
        };
        match body {
            Ok(body) => {
                report.cloned.add(weight);
                nodes.push(order::Node { weight, size: len });
                bodies.push(body);
            }
            Err(obstacle) => report.left.entry(obstacle).or_default().add(weight),
        }
    }
    (bodies, nodes)
}

/// Calls between functions that are copied, by their index.
fn calls_between(
    bodies: &[Body],
    functions: &[Function],
    weights: &Weights,
) -> Vec<(usize, usize, u64)> {
    let index: BTreeMap<u64, usize> = bodies.iter().enumerate().map(|(i, b)| (b.at, i)).collect();
    let of = |function: usize| index.get(&functions[function].at).copied();
    let calls = weights.calls.iter();
    calls
        .filter_map(|(&(from, to), &time)| Some((of(from)?, of(to)?, time)))
        .collect()
}

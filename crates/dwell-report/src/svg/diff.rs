//! Two sides of a comparison: width is the time of one side, colour is how it differs from the other.
use super::layer::{Boxes, Layer};
use super::page::{self, Entry, Heading};
use crate::diff::tree::{Both, DiffTree};
use crate::diff::{DiffAnswer, Sides};
use crate::{human, palette};
use std::io::{self, Write};
use std::ops::Range;

/// What grew, and what shrank: red and blue of the same lightness, which colour-blind eyes tell apart.
const GREW: palette::Rgb = [0xc8, 0x28, 0x1e];
const SHRANK: palette::Rgb = [0x1e, 0x64, 0xb4];
const SAME: palette::Rgb = [0xe4, 0xe2, 0xda];
/// Share of the greater side from which a difference has the full colour.
const FULL: f64 = 0.5;

/// Widths that the greater side is divided into.
const WIDTHS: f64 = (1u64 << 48) as f64;

/// A side's widths.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

struct View<'t> {
    tree: &'t DiffTree,
    side: Side,
    /// A mean may be a part of a ns, a width is a whole number.
    widths_per_ns: f64,
    /// Unit of the times: empty for a run's.
    per: &'static str,
}

/// Writes the differential flame graph: the stacks after, and at a click those before.
pub fn write_diff(sides: &Sides, answer: &DiffAnswer, out: &mut impl Write) -> io::Result<()> {
    let tree = sides.tree();
    let total = tree.nodes[0].total;
    let view = |side| View {
        tree: &tree,
        side,
        widths_per_ns: WIDTHS / total.before.max(total.after),
        per: per(&answer.per),
    };
    let heading = heading(&tree, answer);
    match (total.before > 0.0, total.after > 0.0) {
        (false, false) => page::write_empty(&heading, out),
        (true, false) => page::write(
            &heading,
            &Layer::draw(&view(Side::Before), &heading)?,
            None,
            out,
        ),
        (false, true) => page::write(
            &heading,
            &Layer::draw(&view(Side::After), &heading)?,
            None,
            out,
        ),
        (true, true) => {
            let before = Layer::draw(&view(Side::Before), &heading)?;
            let after = Layer::draw(&view(Side::After), &heading)?;
            page::write(&heading, &after, Some(&before), out)
        }
    }
}

fn per(name: &str) -> &'static str {
    match name {
        "second" => " a second",
        "thread-time" => " a second of thread time",
        "work" => " a unit",
        _ => "",
    }
}

fn heading(tree: &DiffTree, answer: &DiffAnswer) -> Heading {
    let total = tree.nodes[0].total;
    let (before, after) = (&answer.before.target, &answer.after.target);
    let title = match before == after {
        true => format!("{after}: what changed"),
        false => format!("{before} → {after}: what changed"),
    };
    let entry = |color, label: &str, meaning: &str| Entry {
        color,
        label: label.to_owned(),
        meaning: meaning.to_owned(),
        search: None,
    };
    Heading {
        title: page::title(&title),
        subtitle: format!("thread time {}", change(total, per(&answer.per))),
        notes: "Width is thread time of one side; colour is the difference to the other."
            .to_owned(),
        legend: vec![
            entry(GREW, "grew", "half of it or more is new"),
            entry(
                SAME,
                "the same",
                "or differs by no more than chance explains",
            ),
            entry(SHRANK, "shrank", "half of it or more is gone"),
        ],
        control: [
            "Widths are after; show those before".to_owned(),
            "Widths are before; show those after".to_owned(),
        ],
    }
}

/// `1.20 s, was 1.00 s: +20.0%`.
fn change(both: Both, per: &str) -> String {
    let time = human::mean_duration;
    let how = match (both.before > 0.0, both.after > 0.0) {
        (true, true) => format!("{:+.1}%", 100.0 * (both.after - both.before) / both.before),
        (false, true) => "new".to_owned(),
        (true, false) => "gone".to_owned(),
        (false, false) => "none".to_owned(),
    };
    format!(
        "{}{per}, was {}: {how}",
        time(both.after),
        time(both.before)
    )
}

impl View<'_> {
    fn width(&self, both: Both) -> u64 {
        let ns = match self.side {
            Side::Before => both.before,
            Side::After => both.after,
        };
        (ns * self.widths_per_ns) as u64
    }
}

impl Boxes for View<'_> {
    fn name(&self, place: usize) -> &str {
        &self.tree.nodes[place].name
    }

    fn own(&self, place: usize) -> u64 {
        self.width(self.tree.nodes[place].own)
    }

    fn left_out(&self, _: usize) -> u64 {
        0
    }

    fn children(&self, place: usize) -> Range<usize> {
        self.tree.nodes[place].children.clone()
    }

    fn color(&self, place: usize) -> palette::Rgb {
        let both = self.tree.nodes[place].total;
        let difference = both.after - both.before;
        let share = difference.abs() / both.before.max(both.after).max(f64::MIN_POSITIVE);
        let full = match self.tree.is_noise(both) {
            true => 0.0,
            false => (share / FULL).min(1.0),
        };
        let hue = if difference > 0.0 { GREW } else { SHRANK };
        let weight = (full * 1000.0) as u64;
        palette::mix([(hue, weight), (SAME, 1000 - weight)].into_iter(), 0.0)
    }

    fn numbers(&self, place: usize) -> String {
        let both = self.tree.nodes[place].total;
        let chance = if self.tree.is_noise(both) {
            ", within the noise"
        } else {
            ""
        };
        format!("{}{chance}", change(both, self.per))
    }

    fn count(&self) -> usize {
        self.tree.nodes.len()
    }
}

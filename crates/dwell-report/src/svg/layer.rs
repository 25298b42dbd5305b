//! One view of a tree, drawn by inferno and then coloured and labelled with true numbers.
use super::page::Heading;
use crate::palette;
use crate::tree::{IDLE, KERNEL};
use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection};
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;

/// Height of a frame, pixels.
const FRAME_HEIGHT: usize = 16;
/// Frames narrower than this share of the graph are left out, percent.
pub(super) const MIN_WIDTH_PERCENT: f64 = 0.01;
/// The box of idle pools is at most one part in this many of the graph.
const IDLE_PART: u64 = 8;
/// Drawn widths add up to less than this, so that scripts count them exactly.
const MAX_DRAWN_BITS: u32 = 53;

/// What inferno wrote, taken apart.
pub(super) struct Layer {
    /// Everything before the frames: header, style, script, texts.
    pub prelude: String,
    /// The frames, each a `<g>`.
    pub frames: String,
    /// Sum of the drawn widths.
    pub drawn_total: u64,
    /// Height of the picture, pixels.
    pub height: usize,
}

/// What is drawn: boxes below boxes, box 0 around them all.
pub(super) trait Boxes {
    /// The name on the box, fit for one field of a folded line.
    fn name(&self, place: usize) -> &str;
    /// Width that no box below has.
    fn own(&self, place: usize) -> u64;
    /// Width of boxes below that are left out.
    fn left_out(&self, place: usize) -> u64;
    fn children(&self, place: usize) -> Range<usize>;
    fn color(&self, place: usize) -> palette::Rgb;
    /// What is said of the box in brackets after its name.
    fn numbers(&self, place: usize) -> String;
    fn count(&self) -> usize;
}

/// A frame as drawn.
struct Drawn {
    numbers: String,
    color: palette::Rgb,
    kernel: bool,
}

impl Layer {
    pub fn draw(boxes: &impl Boxes, heading: &Heading) -> io::Result<Layer> {
        let layout = Layout::of(boxes);
        let mut svg = Vec::new();
        let mut options = options(heading);
        // A flame chart is drawn in the given order, from the last line to the first.
        let lines = layout.lines.iter().rev().map(String::as_str);
        inferno::flamegraph::from_lines(&mut options, lines, &mut svg)?;
        let svg = String::from_utf8(svg).map_err(io::Error::other)?;
        take_apart(&svg, &layout)
            .ok_or_else(|| io::Error::other("inferno writes SVG of a new form"))
    }
}

fn options(heading: &Heading) -> Options<'static> {
    let mut options = Options::default();
    options.title = heading.title.clone();
    options.subtitle = Some(heading.subtitle.clone());
    options.direction = Direction::Inverted;
    options.frame_height = FRAME_HEIGHT;
    options.min_width = MIN_WIDTH_PERCENT;
    options.count_name = "ns".to_owned();
    options.name_type = String::new();
    options.flame_chart = true;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.bgcolors = Some(BackgroundColor::Flat(Color {
        r: 0xfa,
        g: 0xfa,
        b: 0xf7,
    }));
    options.notes = heading.notes.clone();
    // Colours are replaced; these must not depend on chance.
    options.deterministic = true;
    options
}

/// Folded lines in the tree's order, and what is where.
struct Layout {
    lines: Vec<String>,
    /// (depth, left edge in drawn units) -> frame.
    frames: FxHashMap<(usize, u64), Drawn>,
    drawn_total: u64,
}

impl Layout {
    fn of(boxes: &impl Boxes) -> Layout {
        let scale = Scale::of(boxes);
        let mut layout = Layout {
            lines: Vec::new(),
            frames: FxHashMap::default(),
            drawn_total: 0,
        };
        let mut open = vec![Part::Frame(0, 0, 0)];
        let mut stack = String::new();
        while let Some(part) = open.pop() {
            let (place, depth, length) = match part {
                Part::Frame(place, depth, length) => (place, depth, length),
                Part::Narrow(width, length) => {
                    stack.truncate(length);
                    layout.line(&stack, width);
                    continue;
                }
            };
            stack.truncate(length);
            if place != 0 {
                if length > 0 {
                    stack.push(';');
                }
                stack.push_str(boxes.name(place));
            }
            // A frame without width shares its left edge with the next one: the first one with width,
            // drawn last at that edge, is the one that shows.
            let left = (depth, layout.drawn_total);
            layout.frames.insert(left, scale.drawn(boxes, place));
            layout.line(&stack, scale.width(boxes, place));
            open.push(Part::Narrow(
                boxes.left_out(place) >> scale.shift,
                stack.len(),
            ));
            let children = boxes.children(place).rev();
            open.extend(children.map(|child| Part::Frame(child, depth + 1, stack.len())));
        }
        layout
    }

    /// At the root nothing can be drawn, as a line needs a name.
    fn line(&mut self, stack: &str, width: u64) {
        if width > 0 && !stack.is_empty() {
            self.lines.push(format!("{stack} {width}"));
            self.drawn_total += width;
        }
    }
}

/// What is left to lay out, below the first bytes of the stack.
enum Part {
    /// A node, its depth, its callers' length.
    Frame(usize, usize, usize),
    /// The room of frames that are left out: its width, its callers' length.
    Narrow(u64, usize),
}

/// How time becomes width.
struct Scale {
    shift: u32,
    idle_limit: u64,
}

impl Scale {
    fn of(boxes: &impl Boxes) -> Scale {
        let all = 0..boxes.count();
        let width = |place| u128::from(boxes.own(place)) + u128::from(boxes.left_out(place));
        let total: u128 = all.clone().map(width).sum();
        let shift = (128 - total.leading_zeros()).saturating_sub(MAX_DRAWN_BITS);
        let idle: u128 = all
            .filter(|place| is_idle(boxes, *place))
            .map(|place| u128::from(boxes.own(place)))
            .sum();
        let busy = ((total - idle) >> shift) as u64;
        // Without anything else to see there is nothing to squeeze.
        let idle_limit = if busy == 0 {
            u64::MAX
        } else {
            (busy / (IDLE_PART - 1)).max(1)
        };
        Scale { shift, idle_limit }
    }

    /// Width of a box' own part, drawn units.
    fn width(&self, boxes: &impl Boxes, place: usize) -> u64 {
        let width = boxes.own(place) >> self.shift;
        if is_idle(boxes, place) {
            width.min(self.idle_limit)
        } else {
            width
        }
    }

    fn drawn(&self, boxes: &impl Boxes, place: usize) -> Drawn {
        let to_scale = !is_idle(boxes, place) || boxes.own(place) >> self.shift <= self.idle_limit;
        let scale = if to_scale { "" } else { ", not to scale" };
        Drawn {
            numbers: format!("{}{scale}", boxes.numbers(place)),
            color: boxes.color(place),
            kernel: boxes.name(place).ends_with(KERNEL),
        }
    }
}

fn is_idle(boxes: &impl Boxes, place: usize) -> bool {
    boxes.name(place).starts_with(IDLE)
}

/// Finds inferno's parts. None when they are not where they were.
fn take_apart(svg: &str, layout: &Layout) -> Option<Layer> {
    let start = svg.find("<svg id=\"frames\"")?;
    let frames_start = start + svg[start..].find('>')? + 1;
    let end = svg.rfind("</svg></svg>")?;
    let height = attribute(&svg[..start], "height")?.parse().ok()?;
    let mut groups: Vec<&str> = svg[frames_start..end].split("<g>").collect();
    groups.remove(0).is_empty().then_some(())?;
    let heights: Option<Vec<usize>> = groups
        .iter()
        .map(|g| attribute(g, "y")?.parse().ok())
        .collect();
    let heights = heights?;
    // The root is the highest frame.
    let top = heights.iter().min()?;
    let mut frames = String::with_capacity(end - frames_start);
    for (group, y) in groups.into_iter().zip(&heights) {
        let left: u64 = attribute(group, "fg:x")?.parse().ok()?;
        let drawn = layout.frames.get(&((y - top) / FRAME_HEIGHT, left))?;
        label(&mut frames, group, drawn)?;
    }
    Some(Layer {
        prelude: svg[..start].to_owned(),
        frames,
        drawn_total: layout.drawn_total,
        height,
    })
}

/// Gives a frame its colour and its true numbers.
fn label(out: &mut String, group: &str, drawn: &Drawn) -> Option<()> {
    let (title, body) = group.strip_prefix("<title>")?.split_once("</title>")?;
    // inferno puts ` (… ns, …%)` after the name.
    let name = &title[..title.rfind(" (")?];
    let (before_fill, after_fill) = body.split_once("fill=\"")?;
    let (_, after_fill) = after_fill.split_once('"')?;
    let [r, g, b] = drawn.color;
    let numbers = drawn.numbers.replace('<', "&lt;");
    // It also drops the mark of kernel functions.
    let kernel = if drawn.kernel { KERNEL } else { "" };
    out.push_str(&format!("<g><title>{name}{kernel} ({numbers})</title>"));
    out.push_str(&format!("{before_fill}fill=\"rgb({r},{g},{b})\""));
    let text = if is_dark(drawn.color) {
        "<text class=\"light\""
    } else {
        "<text"
    };
    out.push_str(&after_fill.replacen("<text", text, 1));
    Some(())
}

fn attribute<'s>(element: &'s str, name: &str) -> Option<&'s str> {
    let start = element.find(&format!(" {name}=\""))? + name.len() + 3;
    element[start..].split('"').next()
}

/// True where white text is easier to read than black.
fn is_dark(color: palette::Rgb) -> bool {
    let [r, g, b] = color.map(f64::from);
    0.299 * r + 0.587 * g + 0.114 * b < 125.0
}

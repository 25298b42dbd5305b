//! One view of the tree, drawn by inferno and then coloured and labelled with true numbers.
use super::page::Heading;
use crate::tree::{IDLE, KERNEL, Node, Shape, Tree};
use crate::{human, palette};
use dwell_analysis::{Analysis, State, Times};
use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection};
use rustc_hash::FxHashMap;
use std::io;

/// Height of a frame, pixels.
const FRAME_HEIGHT: usize = 16;
/// Frames narrower than this share of the graph are left out, percent.
const MIN_WIDTH_PERCENT: f64 = 0.01;
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

/// A frame as drawn.
struct Drawn {
    ns: u64,
    color: palette::Rgb,
    to_scale: bool,
    kernel: bool,
}

/// The tree of what is wide enough to be drawn.
pub(super) fn visible(analysis: &Analysis<'_>, shape: Shape) -> Tree {
    let entries = analysis.profile.entries.iter().zip(&analysis.idle.folded);
    let shown = entries.filter(|(_, idle)| !(shape.fold_idle && **idle));
    let busy_ns = shown.fold(0u64, |sum, (entry, _)| sum.saturating_add(entry.weight_ns));
    // Half of it, since widths are rounded.
    let least = busy_ns as f64 * MIN_WIDTH_PERCENT / 100.0 / 2.0;
    Tree::of(analysis, shape, least as u64)
}

impl Layer {
    pub fn draw(tree: &Tree, heading: &Heading) -> io::Result<Layer> {
        let layout = Layout::of(tree);
        let mut svg = Vec::new();
        let mut options = options(heading);
        // A flame chart is drawn in the given order, from the last line to the first.
        let lines = layout.lines.iter().rev().map(String::as_str);
        inferno::flamegraph::from_lines(&mut options, lines, &mut svg)?;
        let svg = String::from_utf8(svg).map_err(io::Error::other)?;
        take_apart(&svg, tree, &layout)
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
    options.notes = "Width is thread time; see the legend for the colours.".to_owned();
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
    fn of(tree: &Tree) -> Layout {
        let scale = Scale::of(tree);
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
            let node = &tree.nodes[place];
            stack.truncate(length);
            if place != 0 {
                if length > 0 {
                    stack.push(';');
                }
                stack.push_str(tree.name(node));
            }
            // A frame without width shares its left edge with the next one: the first one with width,
            // drawn last at that edge, is the one that shows.
            let left = (depth, layout.drawn_total);
            layout.frames.insert(left, drawn(tree, node, &scale));
            layout.line(&stack, scale.width(tree, node));
            open.push(Part::Narrow(node.narrow_ns >> scale.shift, stack.len()));
            let children = node.children.clone().rev();
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
    fn of(tree: &Tree) -> Scale {
        let total: u128 = tree
            .nodes
            .iter()
            .map(|n| u128::from(n.own_ns) + u128::from(n.narrow_ns))
            .sum();
        let shift = (128 - total.leading_zeros()).saturating_sub(MAX_DRAWN_BITS);
        let idle: u128 = tree
            .nodes
            .iter()
            .filter(|n| is_idle(tree, n))
            .map(|n| u128::from(n.own_ns))
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

    /// Width of a frame's own part, drawn units.
    fn width(&self, tree: &Tree, node: &Node) -> u64 {
        let width = node.own_ns >> self.shift;
        if is_idle(tree, node) {
            width.min(self.idle_limit)
        } else {
            width
        }
    }

    fn to_scale(&self, tree: &Tree, node: &Node) -> bool {
        !is_idle(tree, node) || node.own_ns >> self.shift <= self.idle_limit
    }
}

fn is_idle(tree: &Tree, node: &Node) -> bool {
    tree.name(node).starts_with(IDLE)
}

fn drawn(tree: &Tree, node: &Node, scale: &Scale) -> Drawn {
    Drawn {
        ns: node.total.total(),
        color: color(tree, node),
        to_scale: scale.to_scale(tree, node),
        kernel: tree.name(node).ends_with(KERNEL),
    }
}

/// The state's own colour at the end of a stack, else the mix of what is below, paler.
fn color(tree: &Tree, node: &Node) -> palette::Rgb {
    let parts = node
        .total
        .iter()
        .map(|(state, ns)| (palette::rgb(state), ns));
    let shade = || shade(tree.name(node));
    let paler = if is_idle(tree, node) {
        0.55
    } else if !node.children.is_empty() || node.narrow_ns > 0 {
        0.4 + shade()
    } else if node.total.get(State::Running) > 0 {
        shade()
    } else {
        0.0
    };
    palette::mix(parts, paler)
}

/// Up to a sixth, by name: neighbours in the same state stay apart.
fn shade(name: &str) -> f64 {
    let hash = name.bytes().fold(0x811c_9dc5u32, |hash, b| {
        (hash ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    f64::from(hash % 64) / 64.0 / 6.0
}

/// Finds inferno's parts. None when they are not where they were.
fn take_apart(svg: &str, tree: &Tree, layout: &Layout) -> Option<Layer> {
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
    let total_ns = tree.nodes[0].total.total();
    let mut frames = String::with_capacity(end - frames_start);
    for (group, y) in groups.into_iter().zip(&heights) {
        let left: u64 = attribute(group, "fg:x")?.parse().ok()?;
        let drawn = layout.frames.get(&((y - top) / FRAME_HEIGHT, left))?;
        label(&mut frames, group, drawn, total_ns)?;
    }
    Some(Layer {
        prelude: svg[..start].to_owned(),
        frames,
        drawn_total: layout.drawn_total,
        height,
    })
}

/// Gives a frame its colour and its true numbers.
fn label(out: &mut String, group: &str, drawn: &Drawn, total_ns: u64) -> Option<()> {
    let (title, body) = group.strip_prefix("<title>")?.split_once("</title>")?;
    // inferno puts ` (… ns, …%)` after the name.
    let name = &title[..title.rfind(" (")?];
    let (before_fill, after_fill) = body.split_once("fill=\"")?;
    let (_, after_fill) = after_fill.split_once('"')?;
    let [r, g, b] = drawn.color;
    let time = human::duration(drawn.ns);
    let percent = human::percent(drawn.ns, total_ns)
        .replace(' ', "")
        .replace('<', "&lt;");
    let scale = if drawn.to_scale { "" } else { ", not to scale" };
    // It also drops the mark of kernel functions.
    let kernel = if drawn.kernel { KERNEL } else { "" };
    out.push_str(&format!(
        "<g><title>{name}{kernel} ({time}, {percent}{scale})</title>"
    ));
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

/// What the legend shows of a state: its share of all time.
pub(super) fn shares(tree_total: &Times) -> Vec<(State, u64)> {
    tree_total.iter().filter(|(_, ns)| *ns > 0).collect()
}

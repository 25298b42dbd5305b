//! Room for a jump: which instructions to displace for each wanted one.
use super::points::Points;
use super::{Function, Image, Place, Refusal};
use dwell_agent::layout::JUMP_LEN;
use iced_x86::{FlowControl, Instruction, Mnemonic};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a page on x86-64.
const PAGE: u64 = 4096;

/// Consecutive instructions that run in a stub instead, the first of which becomes a jump there.
#[derive(Clone, Debug)]
pub struct Window {
    /// The function they belong to.
    pub function: Function,
    /// The instructions, at their stated addresses.
    pub instructions: Vec<Instruction>,
    /// What is wanted at which of them, by instruction.
    pub sites: Vec<Site>,
}

/// A wanted instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Index of the request.
    pub request: usize,
    /// Index in [`Window::instructions`].
    pub instruction: usize,
    /// Why it is wanted: tells what is live there.
    pub place: Place,
}

impl Room {
    /// Stated address past the bytes that it or its jump take.
    fn end(&self, code: &[Instruction]) -> u64 {
        end(&code[self.range.clone()])
    }
}

/// Stated address past `displaced` and past the jump that replaces them.
fn end(displaced: &[Instruction]) -> u64 {
    let jump_end = displaced[0].ip() + JUMP_LEN as u64;
    displaced[displaced.len() - 1].next_ip().max(jump_end)
}

impl Window {
    /// Stated address of the first byte.
    pub fn start(&self) -> u64 {
        self.instructions[0].ip()
    }

    /// Stated address past the displaced instructions: where their stub jumps back to.
    pub fn resume(&self) -> u64 {
        self.instructions[self.instructions.len() - 1].next_ip()
    }

    /// What nobody may enter any more: all but the first byte.
    pub fn inside(&self) -> Range<u64> {
        self.start() + 1..end(&self.instructions)
    }
}

/// What is wanted, by function.
#[derive(Default)]
pub(super) struct Draft {
    functions: BTreeMap<u64, Wanted>,
}

struct Wanted {
    function: Function,
    instructions: Vec<Instruction>,
    points: Vec<Point>,
}

/// A wanted instruction of a function: its index, the request, and the place.
type Point = (usize, usize, Place);

/// Instructions to displace, and those wanted among them.
struct Room {
    range: Range<usize>,
    points: Vec<Point>,
}

impl Draft {
    pub fn add(&mut self, request: usize, function: Function, points: Points) {
        let entry = self
            .functions
            .entry(function.start)
            .or_insert_with(|| Wanted {
                function,
                instructions: points.instructions,
                points: Vec::new(),
            });
        entry
            .points
            .extend(points.wanted.iter().map(|&i| (i, request, points.place)));
    }

    /// Windows for everything wanted, by address, and the requests there is no room for.
    pub fn lay_out(self, image: &Image<'_>) -> (Vec<Window>, Vec<(usize, Refusal)>) {
        let mut windows: Vec<Window> = Vec::new();
        let mut refused = Vec::new();
        for mut wanted in self.functions.into_values() {
            // Two symbols of one function, or functions that overlap: one of them is enough.
            let before = windows.last().map_or(0, |w| w.inside().end);
            wanted.points.sort_by_key(|p| p.0);
            let (found, too_tight) = lay_out_function(image, &wanted, before);
            windows.extend(found);
            refused.extend(too_tight);
        }
        (windows, refused)
    }
}

fn lay_out_function(
    image: &Image<'_>,
    wanted: &Wanted,
    before: u64,
) -> (Vec<Window>, Vec<(usize, Refusal)>) {
    let code = &wanted.instructions;
    let mut rooms: Vec<Room> = Vec::new();
    let mut refused = Vec::new();
    for &point in &wanted.points {
        let (index, request, _) = point;
        let covering = rooms.last_mut().filter(|r| r.range.contains(&index));
        if let Some(covering) = covering {
            covering.points.push(point);
            continue;
        }
        let previous = rooms.last().map(|r| r.range.clone());
        match room(image, code, index, previous) {
            Ok(range) => match rooms.last_mut() {
                Some(last) if range.start == last.range.start => {
                    last.range = range;
                    last.points.push(point);
                }
                // A jump may also take the padding after a window, of which something is wanted here.
                last if code[range.start].ip() < last.as_ref().map_or(before, |r| r.end(code)) => {
                    refused.push((request, Refusal::TooShort));
                }
                _ => rooms.push(Room {
                    range,
                    points: vec![point],
                }),
            },
            Err(refusal) => refused.push((request, refusal)),
        }
    }
    let windows = rooms.into_iter().map(|room| Window {
        function: wanted.function,
        sites: room
            .points
            .into_iter()
            .map(|(index, request, place)| Site {
                request,
                instruction: index - room.range.start,
                place,
            })
            .collect(),
        instructions: code[room.range].to_vec(),
    });
    (windows.collect(), refused)
}

/// The instructions to displace for the one at `index`: it and what follows, or, where the function
/// ends too soon, also what goes before. What overlaps the window before is made one with it.
fn room(
    image: &Image<'_>,
    code: &[Instruction],
    index: usize,
    previous: Option<Range<usize>>,
) -> Result<Range<usize>, Refusal> {
    let mut start = index;
    loop {
        let floor = previous.clone().filter(|p| start < p.end);
        if let Some(previous) = &floor {
            start = previous.start;
        }
        match forward(image, code, start, index) {
            Ok(end) => return Ok(start..end),
            Err(Refusal::TooShort | Refusal::CrossesPage)
                if floor.is_none() && start > 0 && ends(&code[index]) =>
            {
                start -= 1;
            }
            Err(refusal) => return Err(refusal),
        }
    }
}

fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    )
}

/// The end of the shortest window that begins at `start`, holds a jump and reaches past `index`.
fn forward(
    image: &Image<'_>,
    code: &[Instruction],
    start: usize,
    index: usize,
) -> Result<usize, Refusal> {
    let first = code[start].ip();
    if first / PAGE != (first + JUMP_LEN as u64 - 1) / PAGE {
        return Err(Refusal::CrossesPage);
    }
    for (at, instruction) in code.iter().enumerate().skip(start) {
        let end = instruction.next_ip();
        let enough = end - first >= JUMP_LEN as u64 && at >= index;
        check_movable(instruction)?;
        if enough {
            return Ok(at + 1);
        }
        if instruction.flow_control() == FlowControl::Call
            || instruction.flow_control() == FlowControl::IndirectCall
        {
            return Err(Refusal::CallInside);
        }
        if ends(instruction) {
            if at < index {
                return Err(Refusal::TooShort);
            }
            // Nothing falls through: the bytes up to the next function are free.
            let rest = end..first + JUMP_LEN as u64;
            let free = !image.begins_in(rest.clone()) && image.is_padding(rest);
            return if free {
                Ok(at + 1)
            } else {
                Err(Refusal::TooShort)
            };
        }
    }
    Err(Refusal::TooShort)
}

fn check_movable(instruction: &Instruction) -> Result<(), Refusal> {
    let immovable = matches!(
        instruction.flow_control(),
        FlowControl::Interrupt | FlowControl::XbeginXabortXend | FlowControl::Exception
    ) || matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Sysenter
            | Mnemonic::Hlt
            | Mnemonic::Endbr64
            | Mnemonic::Rdsspq
    ) || is_far(instruction);
    if immovable {
        Err(Refusal::Immovable)
    } else {
        Ok(())
    }
}

fn is_far(instruction: &Instruction) -> bool {
    instruction.is_call_far()
        || instruction.is_call_far_indirect()
        || instruction.is_jmp_far()
        || instruction.is_jmp_far_indirect()
        || matches!(instruction.mnemonic(), Mnemonic::Retf | Mnemonic::Iretq)
}

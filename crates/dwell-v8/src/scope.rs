//! What is known of a function's variables has its name, too.
use crate::objects::{Heap, object, small};
use dwell_maps::Memory;

/// More variables than that are not expected of a function that is called.
const MOST_VARIABLES: u64 = 10_000;
/// From so many variables on their names are elsewhere.
const MOST_NAMES_INLINE: u64 = 75;
/// Words behind the variables in which names are, and in which its place is, too.
const NAME_WITHIN: usize = 4;
const PLACE_WITHIN: usize = 6;
/// The longest name that is read, characters.
pub(crate) const LONGEST_NAME: u32 = 500;

/// What a function is called and where its parameters begin in its script, characters.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) name: Option<String>,
    pub(crate) start: Option<u32>,
}

impl<M: Memory> Heap<'_, M> {
    /// By what is known of its variables (V8's `scope-info.tq`): some numbers, among them how many variables there are and, in
    /// newer versions, its place in the script; the names of its variables and what they are, each a number; a number of a class,
    /// if it is one's; its name and a number; that of what it was assigned to; in older versions, its place.
    pub(crate) fn named(&self, scope: u64) -> Option<Named> {
        let layout = self.layout;
        let word = |index: u64| self.field(scope, 8 * (1 + index));
        let count = u64::try_from(small(word(layout.scope_count)?)?).ok()?;
        let variables = match count {
            0..MOST_NAMES_INLINE => 2 * count,
            MOST_NAMES_INLINE..=MOST_VARIABLES => 1 + count,
            _ => return None,
        };
        let first = layout.scope_first;
        let stated = match first > layout.scope_count + 2 {
            true => position(word(first - 2)?, word(first - 1)?),
            false => None,
        };
        let behind = (first + variables..).map_while(word).take(PLACE_WITHIN);
        let behind: Vec<u64> = behind.collect();
        let objects = behind
            .iter()
            .take(NAME_WITHIN)
            .filter_map(|word| object(*word));
        let mut texts = objects.filter_map(|object| self.text(object, LONGEST_NAME));
        let mut places = behind
            .windows(2)
            .filter_map(|pair| position(pair[0], pair[1]));
        Some(Named {
            name: texts.find(|text| !text.is_empty()),
            start: stated.or_else(|| places.next()),
        })
    }
}

/// Where a function begins, if two words can be where it begins and ends.
fn position(start: u64, end: u64) -> Option<u32> {
    let (start, end) = (small(start)?, small(end)?);
    (start <= end).then(|| u32::try_from(start).ok())?
}

//! What a CPython before 3.10 executes, in the places of the C frames that execute it. One function in C executes bytecode, each
//! frame of it one of Python's, and nothing in it tells which: the kernel side and who walks a stack from outside tell Python's
//! frames apart from the stack's.
use crate::records::words;
use dwell_abi::events::{MAX_TOLD_APART, METHOD_BIT, RETURN_BIT, told_identity};
use std::ops::Range;

/// Where that function is: actual addresses. The compiler may have put what is seldom executed elsewhere.
pub type Code = [Range<u64>];

/// The words of a stack, leaf first, as bytes: those of Python's frames, which come first, where they belong.
pub fn placed(user: &[u8], code: &Code, is_complete: bool) -> Vec<u8> {
    let (pairs, _) = user.as_chunks::<16>();
    let is_told = |pair: &&[u8; 16]| {
        let mut words = words(*pair);
        let is_code = words.next().is_some_and(|word| word >> METHOD_BIT == 1);
        is_code && words.next().and_then(told_identity).is_some()
    };
    let told = pairs.iter().take_while(is_told).count();
    let (told, stack) = (&pairs[..told], &user[16 * told..]);
    let addresses = words(stack).map(|word| match word >> METHOD_BIT & 1 {
        0 => (word & !(1 << RETURN_BIT)).wrapping_sub(word >> RETURN_BIT),
        _ => 0,
    });
    let places = places(addresses, told.len(), code, is_complete);
    let mut places = places.into_iter();
    let mut placed = Vec::with_capacity(user.len());
    let mut next = places.next();
    for (i, word) in stack.as_chunks::<8>().0.iter().enumerate() {
        match next {
            Some((at, frame)) if at == i => {
                placed.extend_from_slice(&told[frame]);
                next = places.next();
            }
            _ => placed.extend_from_slice(word),
        }
    }
    placed
}

/// Which of the frames with these addresses, leaf first, execute which of so many of Python's. At its start and at its end the
/// function executes none yet or none any more: so they are in step where a stack ends, if that is known, and Python's last
/// frame. Else they are at the leaf, where that may be one too far in. They are none where the frames of Python are more.
pub fn places(
    addresses: impl Iterator<Item = u64>,
    told: usize,
    code: &Code,
    is_complete: bool,
) -> Vec<(usize, usize)> {
    let is_executing = |address: &u64| code.iter().any(|range| range.contains(address));
    let executing = addresses.enumerate().filter(|(_, at)| is_executing(at));
    let executing: Vec<usize> = executing.map(|(i, _)| i).collect();
    let skipped = match is_complete && told < MAX_TOLD_APART as usize {
        true => executing.len().checked_sub(told).unwrap_or(executing.len()),
        false => 0,
    };
    executing.into_iter().skip(skipped).zip(0..told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_abi::events::interpreted_word;

    const CODE: &Code = &[0x1000..0x2000, 0x9000..0x9100];

    fn of(addresses: &[u64], told: usize, is_complete: bool) -> Vec<(usize, usize)> {
        places(addresses.iter().copied(), told, CODE, is_complete)
    }

    #[test]
    fn frames_are_in_step_where_the_stack_ends() {
        let stack = [0x500, 0x1234, 0x600, 0x90ff, 0x1000, 0x2000];
        assert_eq!(of(&stack, 3, true), [(1, 0), (3, 1), (4, 2)]);
        // The innermost one has none yet.
        assert_eq!(of(&stack, 2, true), [(3, 0), (4, 1)]);
        assert_eq!(of(&stack, 0, true), []);
        // More than there are places for: it is not known which.
        assert_eq!(of(&stack, 4, true), []);
        // The rest of the stack is not there, or the rest of Python's frames.
        assert_eq!(of(&stack, 7, false), [(1, 0), (3, 1), (4, 2)]);
        let deep = [&[0x500][..], &[0x1234; 400]].concat();
        assert_eq!(
            of(&deep, 300, true),
            (1..=300).zip(0..300).collect::<Vec<_>>()
        );
        assert_eq!(
            of(&deep, 299, true),
            (102..=400).zip(0..299).collect::<Vec<_>>()
        );
    }

    #[test]
    fn words_that_came_first_stand_in_their_places() {
        let bytes = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let returned = |address: u64| 1 << RETURN_BIT | (address + 1);
        let told = |code| [interpreted_word(code, Some(7)), 0b11 << METHOD_BIT | code];
        let (inner, outer) = (told(0x7f00), told(0x7e00));
        let words = [
            &inner[..],
            &outer,
            &[0x500, returned(0x1fff), returned(0x1234), 0x2000],
        ]
        .concat();
        let expected = [&[0x500][..], &inner, &outer, &[0x2000]].concat();
        assert_eq!(placed(&bytes(&words), CODE, true), bytes(&expected));
        let plain = bytes(&[0x500, returned(0x1fff)]);
        assert_eq!(placed(&plain, CODE, true), plain);
        assert_eq!(placed(&[1; 23], CODE, true), [1; 16]);
    }
}

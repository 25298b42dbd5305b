//! A made engine: what no real one shows.
mod stated;

use dwell_maps::Memory;
use dwell_v8::{Function, NoV8, V8, is_wanted};
use stated::STATED;
use std::collections::HashMap;

const SHARED_TYPE: u64 = 262;
const SCRIPT_TYPE: u64 = 167;
const SCOPE_TYPE: u64 = 261;
const CONS: u64 = 1;
const SLICED: u64 = 3;
const THIN: u64 = 5;
const ONE_BYTE: u64 = 8;
const NOTHING_TYPE: u64 = 131;

const NUMBERS: u64 = 0x1000;
const MAPS: u64 = 0x10_0000;

/// Words by their addresses, and objects one behind the other.
struct Made {
    words: HashMap<u64, u64>,
    next: u64,
}

impl Memory for Made {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        into.iter_mut().zip(address..).all(|(byte, at)| {
            let word = self.words.get(&(at & !7));
            word.map(|word| *byte = word.to_le_bytes()[(at & 7) as usize])
                .is_some()
        })
    }
}

fn small(number: i32) -> u64 {
    u64::from(number as u32) << 32
}

impl Made {
    fn new() -> Self {
        let numbers = STATED.iter().zip(0..);
        let numbers = numbers.map(|((_, number), i)| (NUMBERS + 8 * i, *number as u32 as u64));
        Made {
            words: numbers.collect(),
            next: 0x100_0000,
        }
    }

    fn read(&self) -> Result<V8, NoV8> {
        let symbols = STATED.iter().zip(0..);
        V8::read(self, symbols.map(|((name, _), i)| (*name, NUMBERS + 8 * i)))
    }

    /// An object of a type; the word that leads to it.
    fn object(&mut self, kind: u64, words: &[u64]) -> u64 {
        let map = MAPS + 0x100 * kind;
        self.words.insert(map + 8, kind << 32);
        let at = self.next;
        self.next += 8 * (words.len() as u64 + 1);
        self.words.insert(at, map + 1);
        let places = (at + 8..).step_by(8);
        self.words.extend(places.zip(words.iter().copied()));
        at + 1
    }

    fn text(&mut self, text: &str) -> u64 {
        let mut words = vec![(text.len() as u64) << 32];
        words.extend(text.as_bytes().chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
        self.object(ONE_BYTE, &words)
    }

    fn function(&mut self, name: u64, source: &str, place: Option<[i32; 2]>) -> u64 {
        let source = self.text(source);
        let path = self.text("file:///a.mjs");
        let nothing = self.object(NOTHING_TYPE, &[]);
        let script = self.object(SCRIPT_TYPE, &[source, path, 0, 0, 0, 0, nothing]);
        let variable = self.text("variable");
        let start = place.unwrap_or([-1; 2]).map(small);
        let scope = [
            0,
            small(2),
            small(1),
            variable,
            small(7),
            name,
            small(-1),
            nothing,
            start[0],
            start[1],
            nothing,
        ];
        let scope = self.object(SCOPE_TYPE, &scope);
        self.object(SHARED_TYPE, &[nothing, scope, nothing, script])
    }
}

fn told(made: &Made, shared: u64) -> Function {
    let v8 = made.read().expect("an engine");
    v8.function(made, shared - 1).expect("a function")
}

#[test]
fn a_function() {
    let mut made = Made::new();
    let name = made.text("compute");
    let shared = made.function(name, "one\ntwo\nthree\n", Some([5, 9]));
    let function = told(&made, shared);
    let expected = Function {
        name: Some("compute".into()),
        file: Some("/a.mjs".into()),
        line: Some(2),
    };
    assert_eq!(function, expected);
    assert!(is_wanted("v8dbg_TaggedSize") && !is_wanted("main"));
}

#[test]
fn what_a_frame_executes() {
    let mut made = Made::new();
    let name = made.text("f");
    let shared = made.function(name, "", None);
    let nothing = made.object(NOTHING_TYPE, &[]);
    let function = made.object(1000, &[nothing, nothing, shared]);
    let own = made.object(SHARED_TYPE, &[small(77), nothing, nothing, nothing]);
    let own_function = made.object(1000, &[nothing, nothing, own]);
    let v8 = made.read().expect("an engine");
    assert_eq!(v8.executed(&made, nothing, function), Some(shared - 1));
    assert_eq!(v8.executed(&made, nothing, own_function), None);
    assert_eq!(v8.executed(&made, small(4), function), None);
    assert_eq!(v8.executed(&made, nothing, shared), None);
    let identity = v8.identity(&made, shared - 1).expect("an identity");
    made.words.insert(shared - 1 + 16, nothing);
    assert_ne!(v8.identity(&made, shared - 1), Some(identity));
}

#[test]
fn strings_of_all_kinds() {
    let mut made = Made::new();
    let (first, second) = (made.text("left"), made.text("right"));
    let cons = made.object(CONS, &[9 << 32, first, second]);
    let thin = made.object(THIN, &[9 << 32, cons]);
    let sliced = made.object(SLICED | ONE_BYTE, &[5 << 32, thin, small(2)]);
    let wide = made.object(0, &[2 << 32, 0x540d_00fc]);
    for (name, expected) in [
        (cons, "leftright"),
        (thin, "leftright"),
        (sliced, "ftrig"),
        (wide, "ü名"),
    ] {
        let shared = made.function(name, "", Some([0, 0]));
        assert_eq!(told(&made, shared).called(), expected);
    }
}

#[test]
fn a_string_that_leads_to_itself() {
    let mut made = Made::new();
    let at = made.next + 1;
    let thin = made.object(THIN, &[9 << 32, at]);
    assert_eq!(thin, at);
    let shared = made.function(thin, "", Some([0, 0]));
    assert_eq!(told(&made, shared).called(), "(anonymous)");
}

#[test]
fn what_is_not_stated() {
    let mut made = Made::new();
    made.words.insert(NUMBERS, 4); // references of half a word
    assert_eq!(made.read().err(), Some(NoV8::Unknown));
    made.words.remove(&NUMBERS);
    assert_eq!(made.read().err(), Some(NoV8::NotYet));
    let nothing = V8::read(&made, []);
    assert_eq!(nothing.err(), Some(NoV8::Unknown));
}

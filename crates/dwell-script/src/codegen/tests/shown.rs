//! Paths, network addresses and arguments of commands, against what others make of them.
use super::{Running, TARGET_MEMORY};
use crate::codegen::{Generator, Limits, Numbering, Site};
use crate::{Bare, Input, compile};
use std::net::Ipv6Addr;

/// What an expression gives for each memory of the target; `arg0` is where that begins, `arg1` its length.
fn all(expression: &str, memories: &[Vec<u8>]) -> Vec<String> {
    let source = format!("BEGIN {{ trace({expression}); }}");
    let input = Input {
        source: &source,
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).unwrap_or_else(|e| panic!("{source}: {e}"));
    let limits = Limits {
        strsize: 64,
        ..Limits::default()
    };
    let mut generator = Generator::new(&script, &limits);
    let program = generator.program(Site::Entry, &Numbering::Cookie, &[0]);
    let mut running = Running::of(generator, program.expect("a program is made").code);
    let text_of = |memory: &Vec<u8>| {
        running.model.world.memory.clone_from(memory);
        running.fire(TARGET_MEMORY as i64, memory.len() as i64);
        let record = running.records().remove(0);
        let end = record.iter().position(|b| *b == 0).expect("an end");
        assert!(record[end..].iter().all(|b| *b == 0), "{record:?}");
        String::from_utf8(record[..end].to_vec()).expect("text")
    };
    memories.iter().map(text_of).collect()
}

/// A number that is hardly the same twice.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
    *state >> 33
}

/// A path without what it does not need, by its components.
fn cleaned(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        match part {
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if is_absolute => {}
            _ => kept.push(part),
        }
    }
    let root = if is_absolute { "/" } else { "" };
    let clean = format!("{root}{}", kept.join("/"));
    if clean.is_empty() && !path.is_empty() {
        return ".".into();
    }
    clean
}

#[test]
fn paths_are_cleaned() {
    for (path, expected) in [
        ("/foo/bar/baz", "/foo/bar/baz"),
        ("/foo//bar/./baz", "/foo/bar/baz"),
        ("/foo/bar/../baz", "/foo/baz"),
        ("/../../x", "/x"),
        ("../../x/../y", "../../y"),
        ("a/..", "."),
        ("", ""),
    ] {
        assert_eq!(cleaned(path), expected);
    }
    let mut state = 1;
    let paths: Vec<String> = (0..2000)
        .map(|_| {
            let length = draw(&mut state) % 24;
            (0..length)
                .map(|_| ['/', '.', '/', '.', 'a', 'b'][draw(&mut state) as usize % 6])
                .collect()
        })
        .collect();
    let memories: Vec<Vec<u8>> = paths
        .iter()
        .map(|p| [p.as_bytes(), b"\0"].concat())
        .collect();
    let found = all("cleanpath(copyinstr(arg0))", &memories);
    for (path, found) in paths.iter().zip(found) {
        // As dtrace leaves it, a slash at the end stays.
        let trimmed = found.strip_suffix('/').filter(|rest| !rest.is_empty());
        assert_eq!(trimmed.unwrap_or(&found), cleaned(path), "{path}");
    }
}

/// As the standard library writes them, which follows RFC 5952.
#[test]
fn addresses_of_sixteen_bytes() {
    let mut state = 7;
    let mut addresses: Vec<Ipv6Addr> = (0..3000)
        .map(|_| {
            let groups: [u16; 8] = std::array::from_fn(|_| match draw(&mut state) % 5 {
                0..=2 => 0,
                3 => draw(&mut state) as u16 & 0xf,
                _ => draw(&mut state) as u16,
            });
            Ipv6Addr::from(groups)
        })
        .collect();
    addresses.extend([
        Ipv6Addr::UNSPECIFIED,
        Ipv6Addr::LOCALHOST,
        std::net::Ipv4Addr::new(192, 168, 255, 255).to_ipv6_mapped(),
        std::net::Ipv4Addr::new(1, 2, 3, 0).to_ipv6_mapped(),
        Ipv6Addr::from([0xffffu16; 8]),
    ]);
    let memories: Vec<Vec<u8>> = addresses.iter().map(|a| a.octets().to_vec()).collect();
    for call in [
        "inet_ntoa6((struct in6_addr *)arg0)",
        "inet_ntop(AF_INET6, (void *)arg0)",
    ] {
        for (address, text) in addresses.iter().zip(all(call, &memories)) {
            assert_eq!(text, address.to_string());
        }
    }
}

#[test]
fn arguments_of_a_command_are_one_string() {
    let long = [b'x'; 80];
    let memories = [
        b"ls\0-l\0/tmp\0".to_vec(),
        b"one\0".to_vec(),
        b"".to_vec(),
        b"a\0\0b\0".to_vec(),
        b"no end".to_vec(),
        long.to_vec(),
    ];
    let expected = ["ls -l /tmp", "one", "", "a  b", "no end", &"x".repeat(63)];
    assert_eq!(all("argstr(arg0, arg1)", &memories), expected);
}

//! Patterns as in a shell.

/// Whether a name matches: `*` is anything, `?` one character, `[abc]`, `[a-z]` and `[!a]` one of those; a backslash
/// takes away a character's meaning. The empty pattern matches every name.
pub fn matches(pattern: &str, name: &str) -> bool {
    pattern.is_empty() || glob(pattern.as_bytes(), name.as_bytes())
}

/// Whether there is anything in it but a name.
pub(super) fn is_pattern(text: &str) -> bool {
    text.is_empty() || text.contains(['*', '?', '[', '\\'])
}

fn glob(mut pattern: &[u8], mut name: &[u8]) -> bool {
    // Where to go on if what follows the last star does not match: one character later.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, name));
            continue;
        }
        if pattern.is_empty() && name.is_empty() {
            return true;
        }
        if let Some(rest) = one(pattern, name) {
            (pattern, name) = (rest, &name[1..]);
            continue;
        }
        match retry {
            Some((after, [_, later @ ..])) => {
                (pattern, name) = (after, later);
                retry = Some((after, later));
            }
            _ => return false,
        }
    }
}

/// The rest of the pattern if its first part matches the first character.
fn one<'p>(pattern: &'p [u8], name: &[u8]) -> Option<&'p [u8]> {
    let first = *name.first()?;
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, first),
        [b'\\', c, rest @ ..] | [c, rest @ ..] => (*c == first).then_some(rest),
        [] => None,
    }
}

fn class(pattern: &[u8], c: u8) -> Option<&[u8]> {
    let (negated, set) = match pattern {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    // A bracket that comes first is one of the characters.
    let end = set.iter().skip(1).position(|b| *b == b']')? + 1;
    let (mut members, mut found) = (&set[..end], false);
    while let [low, tail @ ..] = members {
        (found, members) = match tail {
            [b'-', high, rest @ ..] => (found || (*low..=*high).contains(&c), rest),
            rest => (found || *low == c, rest),
        };
    }
    (found != negated).then_some(&set[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_a_shell() {
        let yes = [
            ("", "anything"),
            ("*", ""),
            ("mall*", "malloc"),
            ("*alloc", "malloc"),
            ("*a*o*", "calloc"),
            ("m?lloc", "malloc"),
            ("[mc]alloc", "calloc"),
            ("[a-m]*", "free"),
            ("[!x]*", "free"),
            ("a\\*b", "a*b"),
            ("*ab", "aab"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        let no = [
            ("m", "malloc"),
            ("*x*", "malloc"),
            ("[!m]alloc", "malloc"),
            ("?", ""),
            ("a\\*b", "axb"),
            ("[", "["),
        ];
        for (pattern, name) in no {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}

//! What D brings and is written in D itself. A piece is put in front of a script whose text has one of its words, so
//! that scripts without them ask nothing of the kernel's types.

/// A piece: its words, its text.
pub(crate) struct Piece {
    /// Who names one of these wants it.
    pub words: &'static [&'static str],
    /// The definitions.
    pub text: &'static str,
}

/// All of them.
const PIECES: &[Piece] = &[
    Piece {
        words: &["curpsinfo", "curlwpsinfo", "psinfo_t", "lwpsinfo_t"],
        text: include_str!("processes.d"),
    },
    Piece {
        words: &["ppid"],
        text: include_str!("parent.d"),
    },
    Piece {
        words: &["curcpu", "cpuinfo_t"],
        text: include_str!("processor.d"),
    },
];

/// The pieces that a script wants, each with the word that it is wanted for.
pub(crate) fn wanted(sources: &[&str]) -> Vec<(&'static str, &'static Piece)> {
    let is_named = |word: &str| sources.iter().any(|source| has_word(source, word));
    let named = |piece: &'static Piece| Some((*piece.words.iter().find(|w| is_named(w))?, piece));
    PIECES.iter().filter_map(named).collect()
}

/// The words of the library, for suggestions.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    PIECES.iter().flat_map(|piece| piece.words).copied()
}

/// Whether a text has a word that is not a part of another one. A macro (`$ppid`) is another one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c == '_' || c == '$' || c.is_ascii_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_when_they_are_named() {
        let words = |text: &'static str| -> Vec<&str> {
            wanted(&[text]).into_iter().map(|(word, _)| word).collect()
        };
        assert_eq!(words("BEGIN { trace(ppid); }"), ["ppid"]);
        assert_eq!(
            words("BEGIN { trace($ppid); pppid = 1; ppid_ = 2; }"),
            [""; 0]
        );
        assert_eq!(words("BEGIN { trace(curpsinfo->pr_pid); }"), ["curpsinfo"]);
    }
}

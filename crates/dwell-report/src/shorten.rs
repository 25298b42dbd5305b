//! Long C++ and Rust names for narrow places.
//!
//! Parameters go first, then template arguments from the deepest level outwards, at last the middle of
//! what remains. The first words and the last ones always stay.
use unicode_width::UnicodeWidthStr;

/// A pair of brackets in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    /// Byte position of the opening bracket.
    start: usize,
    /// Byte position of the closing bracket.
    end: usize,
    /// Pairs of the same kind around it.
    depth: usize,
    template: bool,
}

/// The name in at most `max` columns.
pub fn shorten(name: &str, max: usize) -> String {
    if name.width() <= max {
        return name.to_owned();
    }
    let mut name = name.replace("(anonymous namespace)", "(anon)");
    if name.width() > max {
        name = collapse(&name, |group| !group.template);
    }
    let deepest = groups(&name)
        .iter()
        .filter(|g| g.template)
        .map(|g| g.depth)
        .max();
    for depth in (0..=deepest.unwrap_or(0)).rev() {
        if name.width() <= max {
            return name;
        }
        name = collapse(&name, |group| group.template && group.depth >= depth);
    }
    middle(&name, max)
}

/// The text on one line: a space for every run of white space and control characters.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Cuts out the middle: two thirds of the room for the start, one for the end.
pub fn middle(text: &str, max: usize) -> String {
    if text.width() <= max {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let room = max.saturating_sub(1);
    let tail = room / 3;
    let head = room - tail;
    let start: String = chars[..head.min(chars.len())].iter().collect();
    let end: String = chars[chars.len() - tail.min(chars.len())..]
        .iter()
        .collect();
    format!("{start}…{end}")
}

/// Replaces the contents of the outermost matching pairs by `…`.
fn collapse(name: &str, matches: impl Fn(&Group) -> bool) -> String {
    let mut out = String::with_capacity(name.len());
    let mut at = 0;
    for group in groups(name).iter().filter(|g| matches(g)) {
        // A group within one that is gone already, or with nothing to gain, or `(anon)`.
        let content = match name.get(group.start + 1..group.end) {
            Some(content) if group.start >= at && content.chars().count() > 1 => content,
            _ => continue,
        };
        if content != "anon" {
            out.push_str(&name[at..=group.start]);
            out.push('…');
            at = group.end;
        }
    }
    out.push_str(&name[at..]);
    out
}

/// Every balanced pair, by start; none at all for a name whose brackets do not match.
fn groups(name: &str) -> Vec<Group> {
    let bytes = name.as_bytes();
    let mut open: Vec<usize> = Vec::new();
    let mut groups = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if name[at..].starts_with("operator") {
            at += "operator".len();
            while bytes.get(at).is_some_and(|b| b"<>=-".contains(b)) {
                at += 1;
            }
            continue;
        }
        match bytes[at] {
            // The arrow of a function type is no bracket.
            b'-' | b'=' if bytes.get(at + 1) == Some(&b'>') => at += 1,
            b'<' | b'(' => open.push(at),
            b'>' | b')' => match open.pop() {
                Some(start) if bytes[start] == if bytes[at] == b'>' { b'<' } else { b'(' } => {
                    groups.push(group(bytes, &open, start, at));
                }
                _ => return Vec::new(),
            },
            _ => {}
        }
        at += 1;
        while !name.is_char_boundary(at) {
            at += 1;
        }
    }
    // `<T as Trait>::method`: what the name starts with is the name, not an argument.
    groups.retain(|g: &Group| g.start > 0);
    groups.sort_by_key(|g| g.start);
    groups
}

fn group(bytes: &[u8], around: &[usize], start: usize, end: usize) -> Group {
    let depth = around
        .iter()
        .filter(|o| **o > 0 && bytes[**o] == bytes[start])
        .count();
    Group {
        start,
        end,
        depth,
        template: bytes[start] == b'<',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_keeps_words_apart() {
        assert_eq!(
            one_line("sh -c \nfor i\n\tdo\u{1b}[1m "),
            "sh -c for i do [1m"
        );
    }

    #[test]
    fn parameters_go_before_template_arguments() {
        let name = "searchd::Cache<Key, Value>::get(std::string const&, int)";
        assert_eq!(shorten(name, 80), name);
        assert_eq!(shorten(name, 40), "searchd::Cache<Key, Value>::get(…)");
        assert_eq!(shorten(name, 30), "searchd::Cache<…>::get(…)");
    }

    #[test]
    fn deep_arguments_go_first() {
        let name = "f<std::vector<std::pair<int, float> >, long>";
        assert_eq!(shorten(name, 35), "f<std::vector<std::pair<…> >, long>");
        assert_eq!(shorten(name, 25), "f<std::vector<…>, long>");
        assert_eq!(shorten(name, 10), "f<…>");
    }

    #[test]
    fn rust_names_keep_their_type() {
        let name =
            "<searchd::rank::TopK<f32, u32> as core::iter::traits::iterator::Iterator>::next";
        let short = shorten(name, 75);
        assert_eq!(
            short,
            "<searchd::rank::TopK<…> as core::iter::traits::iterator::Iterator>::next"
        );
        let tiny = shorten(name, 30);
        assert!(
            tiny.starts_with("<searchd::rank::TopK") && tiny.ends_with("or>::next"),
            "{tiny}"
        );
        assert!(tiny.width() <= 30);
    }

    #[test]
    fn operators_are_no_brackets() {
        let name = "std::operator<< <std::char_traits<char> >(std::ostream&, char const*)";
        assert_eq!(
            shorten(name, 45),
            "std::operator<< <std::char_traits<char> >(…)"
        );
        assert_eq!(shorten(name, 30), "std::operator<< <…>(…)");
        assert_eq!(
            shorten("a::operator->(b const volatile&) const", 25),
            "a::operator->(…) const"
        );
    }

    #[test]
    fn odd_names_are_cut_in_the_middle() {
        assert_eq!(shorten("abcdefghijklmnop", 10), "abcdef…nop");
        assert_eq!(shorten("a<b<c<ddddddddddddddd", 10), "a<b<c<…ddd");
        assert_eq!(shorten("ééééééééééééééé<é", 7), "éééé…<é");
        assert_eq!(
            shorten("(anonymous namespace)::run(int, char)", 20),
            "(anon)::run(…)"
        );
    }

    #[test]
    fn nothing_is_ever_wider_than_asked() {
        let names = [
            "",
            "x",
            "f<g<h>>(i)(j)",
            "->=>",
            "operator",
            "((((",
            "<<<<>>>>",
            "漢字漢字漢字<漢字>",
        ];
        for name in names {
            for max in 3..30 {
                assert!(
                    shorten(name, max).chars().count() <= max.max(name.chars().count()),
                    "{name}"
                );
            }
        }
    }
}

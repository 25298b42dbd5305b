//! Long C++ and Rust names for narrow places.
//!
//! Parameters go first, then template arguments from the deepest level outwards, at last the middle of
//! what remains. The first words and the last ones always stay.
use std::ops::Range;
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

/// The name without its parameters, template arguments, trait, and all but the last part of the path before the
/// function: `<std::fs::File as std::io::Read>::read_buf` becomes `File::read_buf`.
pub(crate) fn brief(name: &str) -> String {
    if !name.contains(['(', ':']) || name.contains(".(*") {
        return brief_dotted(name).to_owned();
    }
    let mut name = name.replace("(anonymous namespace)", "(anon)");
    name = collapse(&name, |group| !group.template);
    name = without_turbofish(&name);
    name = collapse(&name, |group| group.template);
    if let Some(bare) = name.strip_suffix("(…)") {
        name.truncate(bare.len());
    }
    last_parts(&without_trait(&name), "::").to_owned()
}

/// Of Go the package without its path, of Java the class without its package.
fn brief_dotted(name: &str) -> &str {
    let name = name.rsplit_once('/').map_or(name, |(_, package)| package);
    let class = last_parts(name, ".");
    if class.starts_with(char::is_uppercase) {
        class
    } else {
        name
    }
}

/// Without the template arguments of functions, as Rust writes them: `f::<T>`.
fn without_turbofish(name: &str) -> String {
    replace(name, "", |group| {
        let path = name[..group.start].strip_suffix("::")?;
        group.template.then_some(path.len()..group.end + 1)
    })
}

/// `T::method` of `<T as Trait>::method` and of `<T>::method`, of whose arguments only `<…>` is left.
fn without_trait(name: &str) -> String {
    let end = pairs(name).into_iter().find(|g| g.start == 0 && g.template);
    let Some(end) = end.map(|group| group.end) else {
        return name.to_owned();
    };
    let (all, method) = (&name[1..end], &name[end + 1..]);
    let of = all.split_once(" as ").map_or(all, |(of, _)| of);
    format!("{of}{method}")
}

/// The last two parts of a path; closures belong to what they are in.
fn last_parts<'n>(name: &'n str, separator: &str) -> &'n str {
    let mut at = name.len();
    for _ in 0..2 {
        loop {
            at = match name[..at].rfind(separator) {
                Some(found) => found,
                None => return name,
            };
            if !name[at + separator.len()..].starts_with('{') {
                break;
            }
        }
    }
    &name[at + separator.len()..]
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
    replace(name, "…", |group| {
        // With nothing to gain, or `(anon)`.
        let content = name.get(group.start + 1..group.end)?;
        let stays = content.chars().count() <= 1 || content == "anon";
        (matches(group) && !stays).then_some(group.start + 1..group.end)
    })
}

/// Replaces a part of a name for each pair that has one; those within a part go with it.
fn replace(name: &str, by: &str, part: impl Fn(&Group) -> Option<Range<usize>>) -> String {
    let mut out = String::with_capacity(name.len());
    let mut at = 0;
    for part in groups(name).iter().filter_map(part) {
        if part.start >= at {
            out.push_str(&name[at..part.start]);
            out.push_str(by);
            at = part.end;
        }
    }
    out.push_str(&name[at..]);
    out
}

/// Every balanced pair but that of `<T as Trait>::method`: what the name starts with is the name, not an argument.
fn groups(name: &str) -> Vec<Group> {
    let mut groups = pairs(name);
    groups.retain(|g| g.start > 0);
    groups
}

/// Every balanced pair, by start; none at all for a name whose brackets do not match.
fn pairs(name: &str) -> Vec<Group> {
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
    groups.sort_by_key(|g: &Group| g.start);
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
    fn brief_names_keep_the_type_and_the_function() {
        for (name, short) in [
            (
                "<std::fs::File as std::io::Read>::read_buf",
                "File::read_buf",
            ),
            (
                "<&std::fs::File as std::io::Read>::read_buf",
                "File::read_buf",
            ),
            ("<std::sys::fs::unix::File>::read_buf", "File::read_buf"),
            (
                "std::io::default_read_to_end::<std::fs::File>",
                "io::default_read_to_end",
            ),
            (
                "test::run_test::{closure#1}::{closure#0}",
                "test::run_test::{closure#1}::{closure#0}",
            ),
            (
                "a::b::<fn() -> c::D<e::F>>::{closure#1}",
                "a::b::{closure#1}",
            ),
            (
                "<alloc::vec::Vec<u8, A> as core::iter::Extend<u8>>::extend::<I>",
                "Vec<…>::extend",
            ),
            (
                "searchd::rank::Cache<Key, std::less<Key> >::get(std::string const&, int) const",
                "Cache<…>::get(…) const",
            ),
            ("(anonymous namespace)::run(int, char)", "(anon)::run"),
            (
                "std::operator<< <std::char_traits<char> >(int)",
                "std::operator<< <…>",
            ),
            ("net/http.(*conn).serve", "http.(*conn).serve"),
            ("poll_timeout.constprop.0", "poll_timeout.constprop.0"),
            ("main.main.func1", "main.main.func1"),
            (
                "java.util.concurrent.ThreadPoolExecutor.runWorker",
                "ThreadPoolExecutor.runWorker",
            ),
            ("[libc.so.6+0x1234]", "[libc.so.6+0x1234]"),
            ("main", "main"),
            ("", ""),
        ] {
            assert_eq!(brief(name), short, "{name}");
        }
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

//! Lines of known width, painted or plain.
use super::Style;
use crate::palette;
use dwell_analysis::State;
use unicode_width::UnicodeWidthStr;

/// A page under construction.
pub(super) struct Page {
    /// Columns.
    pub width: usize,
    /// Stacks of each kind.
    pub stacks: usize,
    color: bool,
    text: String,
}

impl Page {
    pub fn new(style: &Style) -> Page {
        Page {
            width: style.width.clamp(60, 160),
            stacks: style.stacks,
            color: style.color,
            text: String::new(),
        }
    }

    pub fn finish(self) -> String {
        without_controls(&self.text)
    }

    /// Adds one line; blanks at its end are dropped.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref().trim_end());
        self.text.push('\n');
    }

    /// An empty line, a heading, and where there is room what it is about, dimmed.
    pub fn heading(&mut self, heading: &str, about: &str) {
        let fits = heading.width() + 2 + about.width() <= self.width;
        let about = if fits { about } else { "" };
        let heading = self.bold(heading);
        let about = self.dim(about);
        self.line("");
        self.line(format!("{heading}  {about}"));
    }

    /// Wraps words at the page's width, the first line indented by `first`, the others by `rest`.
    pub fn wrapped(&mut self, text: &str, first: usize, rest: usize) {
        let mut line = " ".repeat(first);
        let mut empty = true;
        for word in text.split(' ') {
            if !empty && line.width() + 1 + word.width() > self.width {
                self.line(&line);
                line = " ".repeat(rest);
            } else if !empty {
                line.push(' ');
            }
            empty = false;
            line.push_str(word);
        }
        self.line(line);
    }

    pub fn bold(&self, text: &str) -> String {
        self.paint(anstyle::Style::new().bold(), text)
    }

    pub fn dim(&self, text: &str) -> String {
        self.paint(anstyle::Style::new().dimmed(), text)
    }

    pub fn warning(&self, text: &str) -> String {
        self.paint(
            anstyle::Style::new()
                .bold()
                .fg_color(Some(anstyle::AnsiColor::Red.into())),
            text,
        )
    }

    /// Text in the colour of a state.
    pub fn state(&self, state: State, text: &str) -> String {
        self.paint(
            anstyle::Style::new().fg_color(Some(palette::ansi(state).into())),
            text,
        )
    }

    fn paint(&self, style: anstyle::Style, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Text filled up with blanks at its end to `width` columns.
pub(super) fn left(text: &str, width: usize) -> String {
    let fill = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(fill))
}

/// Text filled up with blanks at its start to `width` columns.
pub(super) fn right(text: &str, width: usize) -> String {
    let fill = width.saturating_sub(text.width());
    format!("{}{text}", " ".repeat(fill))
}

/// The text without control characters, which names of threads and functions may have, but for our own
/// colours and ends of lines.
fn without_controls(text: &str) -> String {
    let is_colour = |rest: &str| {
        rest.strip_prefix('[')
            .map(|r| r.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'))
            .is_some_and(|r| r.starts_with('m'))
    };
    let keep = |(at, c): (usize, char)| {
        let ours = c == '\n' || (c == '\u{1b}' && is_colour(&text[at + 1..]));
        if c.is_control() && !ours { '?' } else { c }
    };
    text.char_indices().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_reach_the_terminal() {
        let text = "\u{1b}[1;31mred\u{1b}[0m \u{1b}[2J\u{1b}]0;title\u{7}\n";
        assert_eq!(
            without_controls(text),
            "\u{1b}[1;31mred\u{1b}[0m ?[2J?]0;title?\n"
        );
    }
}

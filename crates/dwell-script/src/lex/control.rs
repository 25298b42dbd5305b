//! What is skipped between tokens: blanks, comments, and lines that begin with `#`.

use super::{Lexer, is_blank};
use crate::error::{Checked, Fault};
use crate::options::Options;
use crate::tag::Tag;

impl Lexer<'_> {
    /// Skips what is no token, and does what control lines say.
    pub(super) fn skip_blank(&mut self) -> Checked<()> {
        loop {
            let rest = self.rest();
            let blanks = rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
            self.at += blanks;
            let rest = self.rest();
            if rest.starts_with("/*") {
                self.skip_comment()?;
            } else if rest.starts_with('#') && self.at_line_start() {
                self.control_line()?;
            } else if rest.starts_with("\\\n") {
                self.at += 2;
            } else if rest.starts_with("\\\r\n") {
                self.at += 3;
            } else {
                return Ok(());
            }
        }
    }

    fn at_line_start(&self) -> bool {
        let before = self.source[..self.at].trim_end_matches([' ', '\t', '\x0b', '\x0c']);
        before.is_empty() || before.ends_with('\n')
    }

    fn skip_comment(&mut self) -> Checked<()> {
        let start = self.at;
        let body = &self.source[start + 2..];
        let Some(end) = body.find("*/") else {
            self.at = start + 2;
            return Err(self.syntax(start, "end-of-file encountered before matching */"));
        };
        if let Some(nested) = body[..end].find("/*") {
            self.at = start + 2 + nested + 2;
            return Err(self.syntax(self.at - 2, "/* encountered inside a comment"));
        }
        self.at = start + 2 + end + 2;
        Ok(())
    }

    fn control_line(&mut self) -> Checked<()> {
        let start = self.at;
        let rest = self.rest();
        let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
        self.at += line.len();
        let words = line[1..].trim();
        if line.starts_with("#!") || words.is_empty() {
            return Ok(());
        }
        let (directive, arguments) = split_word(words);
        match directive {
            "pragma" => self.pragma(start, arguments),
            "line" => self.line_marker(start, arguments),
            "ident" => Ok(()),
            "error" => Err(self.fault(start, Tag::Pragerr, format!("#error: {arguments}"))),
            number if number.starts_with(|c: char| c.is_ascii_digit()) => {
                self.line_marker(start, words)
            }
            other => {
                let message = format!("invalid control directive: #{other}");
                let mut fault = self.fault(start, Tag::PragctlInval, message);
                if [
                    "define", "include", "if", "ifdef", "ifndef", "undef", "endif",
                ]
                .contains(&other)
                {
                    fault.suggestion = Some("to use the preprocessor (-C)".into());
                }
                Err(fault)
            }
        }
    }

    /// `<line> ["file" [state]]`.
    fn line_marker(&mut self, start: usize, words: &str) -> Checked<()> {
        let (number, file) = split_word(words);
        let name = file.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let Ok(number) = number.parse::<u32>() else {
            return Err(self.malformed_line(start));
        };
        if !file.is_empty() && name.is_none() {
            return Err(self.malformed_line(start));
        }
        let name = name.map(|(name, _)| if name.starts_with('<') { "" } else { name });
        self.lines
            .mark(self.at + 1, number, name.map(str::to_owned));
        Ok(())
    }

    fn malformed_line(&self, start: usize) -> Box<Fault> {
        let message = "malformed #line <line> [ [\"file\"] state ]";
        self.fault(start, Tag::PragmaMalform, message)
    }

    fn pragma(&mut self, start: usize, words: &str) -> Checked<()> {
        let (language, arguments) = split_word(words);
        if language != "D" {
            return Ok(()); // Another compiler's.
        }
        let (name, arguments) = split_word(arguments);
        match name {
            "option" => self.option(start, arguments),
            "attributes" => self.two_words(start, name, arguments, "<attributes> <ident>"),
            "binding" => self.two_words(start, name, arguments, "\"version\" <ident>"),
            "depends_on" => self.depends_on(start, arguments),
            "error" => Err(self.fault(start, Tag::Pragerr, format!("#pragma error: {arguments}"))),
            other => Err(self.fault(
                start,
                Tag::PragmaInval,
                format!("invalid D pragma: {other}"),
            )),
        }
    }

    fn option(&mut self, start: usize, arguments: &str) -> Checked<()> {
        let (option, more) = split_word(arguments);
        if option.is_empty() {
            let message = "malformed #pragma option <option>=<val>";
            return Err(self.fault(start, Tag::PragmaMalform, message));
        }
        if !more.is_empty() && !more.starts_with("/*") {
            let message = "superfluous arguments specified for #pragma option";
            return Err(self.fault(start, Tag::PragmaMalform, message));
        }
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        self.options.set_within(name, value).map_err(|error| {
            let message = match value {
                Some(value) => format!("failed to set option '{name}' to '{value}': {error}"),
                None => format!("failed to set option '{name}': {error}"),
            };
            let fault = self.fault(start, Tag::PragmaOptset, message);
            fault.suggesting(name, Options::names())
        })
    }

    /// Stabilities and versions are accepted and say nothing here.
    fn two_words(&self, start: usize, name: &str, arguments: &str, form: &str) -> Checked<()> {
        if split_word(arguments).1.is_empty() {
            let message = format!("malformed #pragma {name} {form}");
            return Err(self.fault(start, Tag::PragmaMalform, message));
        }
        Ok(())
    }

    fn depends_on(&self, start: usize, arguments: &str) -> Checked<()> {
        let (class, name) = split_word(arguments);
        if name.is_empty() {
            let message = "malformed #pragma depends_on <class> <name>";
            return Err(self.fault(start, Tag::PragmaMalform, message));
        }
        match class {
            "provider" | "module" => Ok(()),
            "library" => {
                let message = "main program may not explicitly depend on a library";
                Err(self.fault(start, Tag::PragmaDepend, message))
            }
            _ => {
                let message = format!("invalid class {class} specified by #pragma depends_on");
                Err(self.fault(start, Tag::PragmaInval, message))
            }
        }
    }

    fn fault(&self, start: usize, tag: Tag, message: impl Into<String>) -> Box<Fault> {
        Fault::new(tag, self.span_from(start), message)
    }
}

/// The first word and what follows it.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(is_blank).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

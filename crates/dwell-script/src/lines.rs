//! Which line of which file a byte of the source stands for: the preprocessor's markers (`# 12 "file"`) tell.

/// The line markers of a source, by their place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines {
    marks: Vec<Mark>,
}

#[derive(Debug, Clone)]
struct Mark {
    /// The first byte of the line after the marker.
    from: usize,
    /// That line's number.
    line: u32,
    /// Empty for the script itself.
    file: Option<String>,
}

impl Lines {
    /// The line that begins at `from` is number `line`, of `file` (the script itself if empty) or else the same file as
    /// before.
    pub fn mark(&mut self, from: usize, line: u32, file: Option<String>) {
        if self.marks.last().is_some_and(|last| last.from >= from) {
            return; // Read a second time after the lexer was put back.
        }
        let file = file.or_else(|| self.marks.last().and_then(|last| last.file.clone()));
        self.marks.push(Mark { from, line, file });
    }

    /// The file, if a marker named one, and the line of a byte of the source.
    pub fn place(&self, source: &str, at: usize) -> (Option<String>, u32) {
        let newlines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count() as u32;
        match self.marks.iter().rev().find(|mark| mark.from <= at) {
            Some(mark) => {
                let line = mark.line.saturating_add(newlines(&source[mark.from..at]));
                (mark.file.clone().filter(|file| !file.is_empty()), line)
            }
            None => (None, 1 + newlines(&source[..at])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_count_from_the_line_below_them() {
        let source = "a\n# 7 \"x.d\"\nb\nc";
        let mut lines = Lines::default();
        lines.mark(12, 7, Some("x.d".into()));
        assert_eq!(lines.place(source, 0), (None, 1));
        assert_eq!(lines.place(source, 12), (Some("x.d".into()), 7));
        assert_eq!(lines.place(source, 14), (Some("x.d".into()), 8));
    }
}

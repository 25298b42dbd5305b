//! What the terminal can do.
use dwell_report::terminal::Style;
use std::io::IsTerminal;

/// Columns when nobody says how many there are.
const DEFAULT_WIDTH: usize = 80;

/// Width and colour for text on a stream: no colour where it is no terminal, `NO_COLOR` is set
/// (no-color.org) or the terminal is dumb.
pub fn style(stream: &(impl IsTerminal + std::os::fd::AsRawFd)) -> Style {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
    let color = stream.is_terminal() && !set("NO_COLOR") && !dumb;
    Style {
        width: width(stream).unwrap_or(DEFAULT_WIDTH),
        color,
        ..Style::default()
    }
}

fn width(stream: &impl std::os::fd::AsRawFd) -> Option<usize> {
    if let Some(columns) = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()) {
        return Some(columns);
    }
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize through the pointer, which is valid.
    let got = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
    (got == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

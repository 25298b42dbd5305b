//! The terminal as a screen: taken on opening, given back on dropping, also when something fails.
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::{cursor, execute, terminal};
use std::io::{Stdout, Write};
use std::time::Duration;

/// A key, or what stands for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    Interrupt,
    /// The terminal has another size.
    Resized,
}

/// The terminal in raw mode, on its second screen.
pub struct Terminal {
    out: Stdout,
}

impl Terminal {
    /// Takes it.
    pub fn open() -> std::io::Result<Terminal> {
        terminal::enable_raw_mode()?;
        // From here on dropping gives it back.
        let mut terminal = Terminal {
            out: std::io::stdout(),
        };
        execute!(terminal.out, terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(terminal)
    }

    /// The keys pressed since the last time.
    pub fn keys(&mut self) -> std::io::Result<Vec<Key>> {
        let mut keys = Vec::new();
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => keys.extend(known(key)),
                Event::Resize(..) => keys.push(Key::Resized),
                _ => {}
            }
        }
        Ok(keys)
    }

    /// Its lines.
    pub fn height(&self) -> usize {
        terminal::size().map_or(24, |(_, rows)| usize::from(rows))
    }

    /// Shows a text from the top on. Every line is cleared to its end, then the rest of the screen: no flicker.
    pub fn show(&mut self, text: &str) -> std::io::Result<()> {
        let lines = text.trim_end_matches('\n').replace('\n', "\x1b[K\r\n");
        write!(self.out, "\x1b[H{lines}\x1b[K\x1b[J")?;
        self.out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Nothing can be done for a terminal that is gone.
        let _ = execute!(self.out, cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn known(key: KeyEvent) -> Option<Key> {
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        _ => return None,
    })
}

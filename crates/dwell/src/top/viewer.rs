//! What the person who looks on has chosen, and what keys change of it.
use super::recording::Recording;
use super::screen::{Key, Terminal};
use crate::terminal;
use dwell_recording::Tables;
use dwell_report::Analysis;
use dwell_report::live::{Live, View};
use dwell_report::terminal::{Screen, render_keys, render_live};
use std::time::Duration;

/// Rows that a page key moves by.
const PAGE: usize = 15;
/// Times between pictures that keys choose among, seconds.
const INTERVALS: [u64; 5] = [1, 2, 5, 10, 30];

/// The picture and the choices.
pub struct Viewer {
    screen: Screen,
    tables: Option<Tables>,
    keys_shown: bool,
    wanted_interval: Option<Duration>,
    recording: Option<Recording>,
    pids: Vec<u32>,
    /// The person wants to end.
    pub over: bool,
}

impl Viewer {
    /// Nothing is seen yet.
    pub fn new(pids: &[u32]) -> Viewer {
        let names: Vec<String> = pids.iter().map(u32::to_string).collect();
        let target = match pids {
            [] => "whole system".to_owned(),
            _ => format!("pid {}", names.join(", ")),
        };
        Viewer {
            screen: Screen {
                target,
                view: if pids.is_empty() {
                    View::Process
                } else {
                    View::Thread
                },
                message: "the first picture comes in a moment".to_owned(),
                ..Screen::default()
            },
            tables: None,
            keys_shown: false,
            wanted_interval: None,
            recording: None,
            pids: pids.to_vec(),
            over: false,
        }
    }

    /// Takes a new picture, unless it is to stand still; whether there is something else to see.
    pub fn show(&mut self, tables: Tables) -> bool {
        if self.tables.is_none() {
            self.screen.message.clear();
        }
        if self.screen.paused {
            return false;
        }
        self.tables = Some(tables);
        true
    }

    /// The time between pictures, of which `now` is in force.
    pub fn interval(&self, now: Duration) -> Duration {
        self.wanted_interval.unwrap_or(now)
    }

    /// Does what a key asks for.
    pub fn press(&mut self, key: Key, interval: Duration) {
        if key == Key::Interrupt {
            self.over = true;
        } else if self.screen.typing {
            self.type_filter(key);
        } else if self.keys_shown && key != Key::Resized {
            self.keys_shown = false;
        } else {
            self.choose(key, interval);
        }
    }

    fn choose(&mut self, key: Key, interval: Duration) {
        let last_column = self.screen.view.columns().len() - 1;
        let screen = &mut self.screen;
        match key {
            Key::Char('q') => self.over = true,
            Key::Char('p') => self.look_at(View::Process),
            Key::Char('t') => self.look_at(View::Thread),
            Key::Char('f') => self.look_at(View::Function),
            Key::Char('s') => self.look_at(View::State),
            Key::Char('r') => self.look_at(View::Reason),
            Key::Tab => {
                let place = View::ALL.iter().position(|view| *view == screen.view);
                let next = place.map_or(0, |place| (place + 1) % View::ALL.len());
                self.look_at(View::ALL[next]);
            }
            Key::Char('<') => screen.column = screen.column.saturating_sub(1),
            Key::Char('>') => screen.column = (screen.column + 1).min(last_column),
            Key::Char('/') => {
                screen.typing = true;
                screen.filter.clear();
            }
            Key::Escape => screen.filter.clear(),
            Key::Char(' ') => screen.paused = !screen.paused,
            Key::Char('+') => self.change_interval(interval, true),
            Key::Char('-') => self.change_interval(interval, false),
            Key::Char('R') => self.start_or_end_recording(),
            Key::Char('?' | 'h') => self.keys_shown = true,
            Key::Up => screen.scrolled = screen.scrolled.saturating_sub(1),
            Key::Down => screen.scrolled += 1,
            Key::PageUp => screen.scrolled = screen.scrolled.saturating_sub(PAGE),
            Key::PageDown => screen.scrolled += PAGE,
            Key::Home => screen.scrolled = 0,
            _ => {}
        }
    }

    fn look_at(&mut self, view: View) {
        self.screen.view = view;
        self.screen.column = 0;
        self.screen.scrolled = 0;
    }

    fn type_filter(&mut self, key: Key) {
        let screen = &mut self.screen;
        match key {
            Key::Char(c) => screen.filter.push(c),
            Key::Backspace => drop(screen.filter.pop()),
            Key::Enter => screen.typing = false,
            Key::Escape => {
                screen.typing = false;
                screen.filter.clear();
            }
            _ => {}
        }
        screen.scrolled = 0;
    }

    fn change_interval(&mut self, now: Duration, longer: bool) {
        let mut known = INTERVALS.map(Duration::from_secs);
        if !longer {
            known.reverse();
        }
        let beyond = |wanted: &Duration| if longer { *wanted > now } else { *wanted < now };
        if let Some(next) = known.into_iter().find(beyond) {
            self.wanted_interval = Some(next);
            self.screen.message = format!("a picture every {} s", next.as_secs());
        }
    }

    fn start_or_end_recording(&mut self) {
        self.screen.message = match self.recording.take() {
            Some(recording) => recording.end(),
            None => match Recording::start(&self.pids) {
                Ok(recording) => {
                    let message = format!("recording to {}; R ends it", recording.path());
                    self.recording = Some(recording);
                    message
                }
                Err(error) => format!("cannot record: {error}"),
            },
        };
    }

    /// Whether a recording has ended by itself, which is then said.
    pub fn watch_recording(&mut self) -> bool {
        let ended = self.recording.as_mut().is_some_and(Recording::has_ended);
        if let Some(recording) = self.recording.take_if(|_| ended) {
            self.screen.message = recording.end();
        }
        ended
    }

    /// Ends a recording that goes on, and says where it is.
    pub fn end_recording(&mut self) -> Option<String> {
        self.recording.take().map(Recording::end)
    }

    /// Draws the picture.
    pub fn draw(&mut self, terminal: &mut Terminal) -> std::io::Result<()> {
        let style = terminal::style(&std::io::stdout());
        self.screen.height = terminal.height();
        if self.keys_shown {
            return terminal.show(&render_keys(&style, self.screen.height));
        }
        let mut live = match &self.tables {
            Some(tables) => Live::of(&Analysis::of(tables), self.screen.view),
            None => Live::default(),
        };
        live.arrange(&self.screen.filter, self.screen.column);
        self.screen.scrolled = self.screen.scrolled.min(live.rows.len().saturating_sub(1));
        terminal.show(&render_live(&live, &self.screen, &style))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(keys: &[Key]) -> Viewer {
        let mut viewer = Viewer::new(&[1]);
        let now = Duration::from_secs(2);
        keys.iter().for_each(|key| viewer.press(*key, now));
        viewer
    }

    #[test]
    fn a_filter_is_typed_kept_and_dropped() {
        use Key::*;
        let typed = [Char('/'), Char('q'), Char('x'), Backspace, Char('t')];
        let viewer = pressed(&typed);
        assert!(viewer.screen.typing && !viewer.over);
        assert_eq!(viewer.screen.filter, "qt");
        let kept = pressed(&[&typed[..], &[Enter, Char('f')]].concat());
        assert_eq!(
            (kept.screen.filter.as_str(), kept.screen.view),
            ("qt", View::Function)
        );
        let dropped = pressed(&[&typed[..], &[Escape]].concat());
        assert!(dropped.screen.filter.is_empty() && !dropped.screen.typing);
        assert!(pressed(&[&typed[..], &[Interrupt]].concat()).over);
    }

    #[test]
    fn columns_end_at_both_sides_and_belong_to_a_view() {
        let viewer = pressed(&[Key::Char('>'); 9]);
        assert_eq!(viewer.screen.column, View::Thread.columns().len() - 1);
        assert_eq!(pressed(&[Key::Char('<')]).screen.column, 0);
        assert_eq!(pressed(&[Key::Char('>'), Key::Tab]).screen.column, 0);
        let all = pressed(&[Key::Tab; View::ALL.len()]);
        assert_eq!(all.screen.view, View::Thread);
    }

    #[test]
    fn the_sheet_of_keys_goes_with_any_key_and_intervals_end() {
        assert!(pressed(&[Key::Char('?')]).keys_shown);
        let back = pressed(&[Key::Char('?'), Key::Char('q')]);
        assert!(!back.keys_shown && !back.over);
        let now = Duration::from_secs(2);
        assert_eq!(pressed(&[Key::Char('+')]).interval(now).as_secs(), 5);
        assert_eq!(pressed(&[Key::Char('-')]).interval(now).as_secs(), 1);
        let mut viewer = Viewer::new(&[]);
        viewer.press(Key::Char('-'), Duration::from_secs(1));
        assert_eq!(viewer.interval(now), now);
    }
}

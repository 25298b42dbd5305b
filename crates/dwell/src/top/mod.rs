//! `dwell top`: the last seconds, again and again.
mod namer;
mod recording;
mod screen;
mod viewer;
mod window;

use crate::cli::TopArgs;
use crate::naming::running_stacks;
use crate::spinning::Leaves;
use crate::terminal;
use dwell_collector::{
    Clock, DEFAULT_PERIOD_NS, DEFAULT_RING_BYTES, DEFAULT_SLICE_MIN_NS, Options, Recorder, Step,
    Target,
};
use dwell_recording::Tables;
use dwell_report::Answer;
use namer::Namer;
use screen::Terminal;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use viewer::Viewer;
use window::Window;

/// Rows come about every 0.9 s: a picture is due with those nearest to its time.
const SEGMENT_SLACK: Duration = Duration::from_millis(500);

/// Shows live where the time goes.
pub fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let mut live = Live {
        recorder: Recorder::start(options(args))?,
        namer: Namer::start(),
        window: Window::default(),
        interval: args.interval,
        next: Instant::now(),
    };
    live.wait_for(args.interval);
    let interactive = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if interactive {
        watch(&mut live, args)
    } else {
        print(&mut live, args)
    }
}

fn options(args: &TopArgs) -> Options {
    let target = match args.pid.is_empty() {
        true => Target::All,
        false => Target::Pids(args.pid.clone()),
    };
    Options {
        target,
        output: None,
        overwrite: false,
        period_ns: DEFAULT_PERIOD_NS,
        clock: Clock::Tick,
        duration: None,
        slice_min_ns: DEFAULT_SLICE_MIN_NS,
        ring_bytes: DEFAULT_RING_BYTES,
        kernel_locks: false,
        memory: false,
        command_line: Vec::new(),
    }
}

/// A recording that nobody writes, cut into windows.
struct Live {
    recorder: Recorder,
    namer: Namer,
    window: Window,
    interval: Duration,
    next: Instant,
}

/// What a step of it came to.
enum News {
    Nothing,
    Picture(Box<Tables>),
    Ended,
}

impl Live {
    /// Up to a tenth of a second of it.
    fn step(&mut self) -> anyhow::Result<News> {
        match self.recorder.step()? {
            Step::Progress(_) => {}
            Step::Ended(_) => return Ok(News::Ended),
            Step::Rows(rows) => {
                self.window.add(*rows);
                if Instant::now() >= self.next && !self.namer.busy {
                    let groups = self.recorder.unnamed(&self.window.wanted());
                    let leaves = Leaves::of(running_stacks(&self.window.all));
                    self.namer.ask(groups, leaves);
                }
            }
        }
        let Some(named) = self.namer.answer() else {
            return Ok(News::Nothing);
        };
        self.window.know(named);
        self.wait_for(self.interval);
        Ok(News::Picture(Box::new(self.window.take())))
    }

    /// The next picture is due after this long.
    fn wait_for(&mut self, interval: Duration) {
        self.interval = interval;
        self.next = Instant::now() + interval - SEGMENT_SLACK.min(interval);
    }
}

/// Pictures one below the other, for what is no terminal.
fn print(live: &mut Live, args: &TopArgs) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let style = terminal::style(&out);
    let options = dwell_report::Options {
        stacks: 5,
        ..dwell_report::Options::default()
    };
    let mut pictures = 0;
    while args.pictures.is_none_or(|n| pictures < n) {
        match live.step()? {
            News::Nothing => {}
            News::Ended => break,
            News::Picture(tables) => {
                let answer = Answer::build(&tables, &options);
                let text = dwell_report::terminal::render(&answer, &style);
                out.write_all(text.as_bytes())?;
                out.flush()?;
                pictures += 1;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A screen that a person looks at and steers.
fn watch(live: &mut Live, args: &TopArgs) -> anyhow::Result<ExitCode> {
    let mut viewer = Viewer::new(&args.pid);
    let mut terminal = Terminal::open()?;
    let mut pictures = 0;
    viewer.draw(&mut terminal)?;
    while !viewer.over && args.pictures.is_none_or(|n| pictures < n) {
        let mut changed = viewer.watch_recording();
        for key in terminal.keys()? {
            viewer.press(key, live.interval);
            changed = true;
        }
        if viewer.interval(live.interval) != live.interval {
            live.wait_for(viewer.interval(live.interval));
        }
        match live.step()? {
            News::Nothing => {}
            News::Ended => break,
            News::Picture(tables) => {
                changed |= viewer.show(*tables);
                pictures += 1;
            }
        }
        if changed {
            viewer.draw(&mut terminal)?;
        }
    }
    drop(terminal);
    if let Some(note) = viewer.end_recording() {
        eprintln!("dwell: {note}");
    }
    Ok(ExitCode::SUCCESS)
}

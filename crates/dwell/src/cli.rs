//! What can be typed.
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  dwell -- stockfish bench          record a command and print where its time went
  dwell record -p 4711 --duration 10s -o api.dwell
  dwell report api.dwell            the answer again, later or elsewhere
  dwell view api.dwell              the same to look at, in the browser
  dwell memory -- python3 x.py      what memory costs a command, and which stacks cause it
  dwell findings api.dwell          what to change, and what that is worth
  dwell locks api.dwell             which locks cost time, and who held them
  dwell whatif api.dwell            what fewer threads, batches or another lock would do
  dwell diff before.dwell after.dwell   what changed, and whether it is more than chance
  dwell export api.dwell --to svg -o api.svg
  dwell import perf.data            a recording of another profiler's file
  dwell send api.dwell --store s3://profiles/prod   to where many recordings are kept
  dwell top -p 4711                 live
  dwell boost plan git              what merging a program with its libraries would gain
  dwell doctor                      what this machine allows

Recording needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE. Reading a recording needs nothing.";

/// Shows where a program's wall-clock time goes, why, and what can be done about it.
#[derive(Parser, Debug)]
#[command(name = "dwell", version, after_help = AFTER_HELP, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub struct Cli {
    /// One of the commands below; without one, `dwell -- COMMAND` records a command and reports.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Record a command and report.
    #[command(flatten)]
    pub run: RecordArgs,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The command under dtrace's name.
#[derive(Parser, Debug)]
#[command(name = "dtrace", version, disable_help_flag = true)]
pub struct Dtrace {
    #[command(flatten)]
    pub trace: crate::trace::TraceArgs,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make a recording.
    #[command(
        after_help = "Ctrl-C ends the recording cleanly. A launched command keeps its terminal, its exit code and its signals.\n\nExamples:\n  dwell record -- make -j4\n  dwell record -p 4711 -p 4712 --duration 30s -o two.dwell\n  dwell record --locks -p 4711 --duration 10s -o api.dwell && dwell locks api.dwell\n  dwell record -a --duration 5s\n  dwell record -p 4711 --duration 1m --store s3://profiles/prod --service api"
    )]
    Record(RecordCommand),
    /// Print where the time of a recording went.
    Report(ReportArgs),
    /// Show a recording in the browser: timeline, flame graph, functions, wakers, locks, memory.
    #[command(after_help = crate::view::EXAMPLES)]
    View(crate::view::ViewArgs),
    /// Print which locks threads waited for, who waited, and who held them up.
    #[command(
        after_help = "A lock is named by its variable where it is one, else by the function that wants it. Every wait is\ncharged to the thread that ended it, by releasing the lock. Functions that only waited while they ran,\nin a loop that does nothing else, are told apart: they spun.\n\nExamples:\n  dwell record -p $(pidof memcached) --duration 10s -o cache.dwell && dwell locks cache.dwell\n  dwell locks --timeline cache_lock cache.dwell\n  dwell locks --json cache.dwell | jq '.locks[0] | {name, kind, waited_ns}'\n  dwell locks --json cache.dwell | jq '.spun[] | {function, caller, time_ns}'"
    )]
    Locks(LocksArgs),
    /// Print what memory cost: page faults, clearing, unmapping, by the stacks that caused it.
    #[command(
        after_help = "Counts are exact. Times are sampled, and scaled to the exact time on a CPU. What is modelled\nor attributed says so.\n\nExamples:\n  dwell memory -- python3 report.py\n  dwell record --memory -p $(pidof redis-server) --duration 10s -o redis.dwell\n  dwell memory redis.dwell\n  dwell memory --json redis.dwell | jq '.components'"
    )]
    Memory(MemoryArgs),
    /// Print what an expert would say: habits that cost time, the numbers that show them, the remedy and what it is worth.
    #[command(
        after_help = "docs/findings.md explains every rule. Locks and memory are looked into as far as they were recorded\n(`dwell record --locks --memory`).\n\nExit code: with --fail-on, 1 when there is a finding of that severity or a worse one; of a command that was started,\nits own if that is not 0.\n\nExamples:\n  dwell findings api.dwell\n  dwell findings --locks -- ./server --selftest\n  dwell findings --fail-on high --json ci.dwell | jq '.findings[] | {rule, severity, title}'"
    )]
    Findings(FindingsArgs),
    /// Predict what other numbers of threads, batches, kinds of lock or shards would do.
    #[command(after_help = crate::whatif::EXAMPLES)]
    Whatif(crate::whatif::WhatIfArgs),
    /// Print what changed between recordings; fail when it got worse.
    #[command(after_help = crate::diff::EXAMPLES)]
    Diff(crate::diff::DiffArgs),
    /// Write a recording in another tool's format.
    #[command(
        after_help = "Examples:\n  dwell export x.dwell --to svg -o x.svg        flame graph; open it in a browser\n  dwell export x.dwell --to folded | flamegraph.pl > x.svg\n  dwell export x.dwell --to pprof -o x.pb.gz && go tool pprof -http=: x.pb.gz\n  dwell export x.dwell --to firefox -o x.json.gz    open it at profiler.firefox.com\n  dwell export x.dwell --to perfetto -o x.pftrace   open it at ui.perfetto.dev\n\ndocs/other-tools.md says what each shows and what it loses."
    )]
    Export(ExportArgs),
    /// Make a recording of another profiler's file: perf.data, folded stacks, pprof.
    #[command(after_help = crate::import::EXAMPLES)]
    Import(crate::import::ImportArgs),
    /// Keep a recording in a store of many, or send its profile to a server.
    #[command(after_help = crate::delivery::EXAMPLES)]
    Send(crate::delivery::SendArgs),
    /// Record all the time, and keep the recordings in a store or send their profiles to a server.
    #[command(after_help = crate::agent::EXAMPLES)]
    Agent(crate::agent::AgentArgs),
    /// Show live where the time goes: by process, thread, function, state or way of waiting.
    #[command(
        after_help = "In a terminal, keys choose what is seen (? shows them): p t f s r the rows, < > their order, / a filter,\nspace stands still, R starts and ends a recording, q ends. Elsewhere whole answers are printed.\n\nExamples:\n  dwell top -p $(pidof redis-server)\n  dwell top --interval 5s\n  dwell top -p 4711 -n 1 > now.txt"
    )]
    Top(TopArgs),
    /// Count calls of kernel functions: how many, how long, from where.
    #[command(
        after_help = "Needs a kernel that lets functions be traced (fentry); `dwell doctor` tells. Ctrl-C ends it with the answer.\nEvery call is counted; times are from entry to return and include what the function calls and waits for.\n\nExamples:\n  dwell functions vfs_read vfs_write --duration 5s\n  dwell functions tcp_sendmsg -p $(pidof nginx)\n  dwell functions --spin-locks --duration 5s      all spin locks of the kernel: who waited, who held\n  dwell functions do_fault --duration 1s --json | jq '.functions[0] | {name, calls, mean_ns}'"
    )]
    Functions(FunctionsArgs),
    /// Run D programs: ask anything of functions, system calls and timers, as with dtrace(1).
    #[command(
        after_help = "A link named dtrace to this command behaves as dtrace does.\n\nExamples:\n  dwell trace -n 'syscall:::entry { @[execname] = count(); }'\n  dwell trace -n 'pid$target::malloc:entry { @ = quantize(arg0); }' -c 'ls -l'\n  dwell trace -q -s latency.d -p 4711"
    )]
    Trace(crate::trace::TraceArgs),
    /// Merge a program with its libraries into one file that starts faster, tried out before it is used.
    #[command(
        after_help = "Examples:\n  dwell boost plan git                 what would be merged, and what it would gain\n  dwell boost build git -o ~/bin/git   make it\n  dwell boost run -- git status        make it when it is first run"
    )]
    Boost(crate::boost::BoostArgs),
    /// Tell what this machine allows, what is missing, and the remedy.
    Doctor(DoctorArgs),
    /// Measure what dwell itself costs, on this machine, next to other profilers.
    Bench(BenchArgs),
    /// Print a completion script for a shell.
    Completions {
        /// bash, zsh, fish, elvish or powershell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff).
    Man {
        /// Instead, write the pages of this and of every command into a folder.
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
}

/// What to record, and how.
#[derive(Args, Debug, Clone)]
pub struct RecordArgs {
    /// A process to record; may be given several times, or as a list (`-p 1,2`). Its threads are followed, and children
    /// born meanwhile.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["all", "cgroup", "cmd"])]
    pub pid: Vec<u32>,
    /// Record the whole system.
    #[arg(short, long, conflicts_with_all = ["cgroup", "cmd"])]
    pub all: bool,
    /// Record every process of a cgroup (a folder, or a path below /sys/fs/cgroup).
    #[arg(long, value_name = "PATH", conflicts_with = "cmd")]
    pub cgroup: Option<PathBuf>,
    /// End after this long: 10s, 500ms, 2m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Stacks per second of each thread's time, on and off the processor. Default: 99, or 250 with --memory.
    #[arg(short = 'F', long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub frequency: Option<u32>,
    /// Where to write the recording (a folder). Default: NAME.dwell, after what is recorded.
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Clock for the stacks of running threads: the scheduler's tick costs next to nothing; a timer
    /// of our own sees programs whose own timers beat in step with the tick.
    #[arg(long, value_enum, default_value_t = ClockChoice::Tick)]
    pub clock: ClockChoice,
    /// Size of the buffer between kernel and recorder; a power of two.
    #[arg(long, value_name = "KIB", default_value_t = 16384, hide = true, value_parser = parse_buffer)]
    pub buffer: u32,
    /// Count every lock operation of the processes named, or of the command, but not of their children,
    /// by code put into them and taken out again at the end; and sum up waits for locks of the kernel.
    #[arg(long, conflicts_with_all = ["all", "cgroup"])]
    pub locks: bool,
    /// Keep a ledger of what getting and giving back memory costs: page faults, clearing, unmapping, shootdowns, waits
    /// for the kernel's locks, by the stack that causes it.
    #[arg(long)]
    pub memory: bool,
    /// The command to start and record.
    #[arg(last = true, value_name = "COMMAND")]
    pub cmd: Vec<OsString>,
}

impl RecordArgs {
    /// Records a command with its ledger of memory, all else as `dwell --memory -- COMMAND` does.
    pub fn memory_of(cmd: Vec<OsString>) -> RecordArgs {
        let options = ["dwell", "--memory", "--"].map(OsString::from);
        Cli::parse_from(options.into_iter().chain(cmd)).run
    }
}

/// See `RecordArgs::clock`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChoice {
    /// The scheduler's tick.
    Tick,
    /// A timer of our own.
    Timer,
}

/// `dwell record`.
#[derive(Args, Debug)]
pub struct RecordCommand {
    #[command(flatten)]
    pub record: RecordArgs,
    #[command(flatten)]
    pub delivery: crate::delivery::DeliveryArgs,
    /// Say nothing but errors.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Which recording.
#[derive(Args, Debug)]
pub struct Input {
    /// The recording. Default: the newest *.dwell in this folder.
    #[arg(value_name = "RECORDING")]
    pub recording: Option<PathBuf>,
}

/// `dwell report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    pub input: Input,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
    /// Write a page for the browser instead: one file that needs no network.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "stacks"])]
    pub html: Option<PathBuf>,
    /// How many stacks of each kind to show.
    #[arg(short = 'n', long, value_name = "N")]
    pub stacks: Option<usize>,
}

/// `dwell locks`.
#[derive(Args, Debug)]
pub struct LocksArgs {
    #[command(flatten)]
    pub input: Input,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
    /// How many locks to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub locks: usize,
    /// Show who held this lock and how many waited for it, over time: a part of its name, its address or
    /// its number. The recording must hold lock counts.
    #[arg(long, value_name = "LOCK")]
    pub timeline: Option<String>,
}

/// `dwell memory`.
#[derive(Args, Debug)]
pub struct MemoryArgs {
    #[command(flatten)]
    pub input: Input,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
    /// How many stacks to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 15)]
    pub stacks: usize,
    /// The command to start and record first; the recording is named after it.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "recording")]
    pub cmd: Vec<OsString>,
}

/// `dwell findings`.
#[derive(Args, Debug)]
pub struct FindingsArgs {
    #[command(flatten)]
    pub input: Input,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
    /// End with exit code 1 when there is a finding of this severity or a worse one.
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<SeverityChoice>,
    /// Look for this only: a name that findings have in brackets.
    #[arg(long, value_name = "RULE")]
    pub rule: Option<String>,
    /// Count the lock operations of the command.
    #[arg(long, requires = "cmd")]
    pub locks: bool,
    /// Keep the ledger of memory of the command.
    #[arg(long, requires = "cmd")]
    pub memory: bool,
    /// The command to start and record first; the recording is named after it.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "recording")]
    pub cmd: Vec<OsString>,
}

/// See `FindingsArgs::fail_on`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeverityChoice {
    /// What could be gained most.
    High,
    /// Worth changing.
    Medium,
    /// Worth knowing.
    Low,
}

impl From<SeverityChoice> for dwell_findings::Severity {
    fn from(choice: SeverityChoice) -> Self {
        match choice {
            SeverityChoice::High => dwell_findings::Severity::High,
            SeverityChoice::Medium => dwell_findings::Severity::Medium,
            SeverityChoice::Low => dwell_findings::Severity::Low,
        }
    }
}

/// `dwell export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    pub input: Input,
    /// The format.
    #[arg(long, value_enum)]
    pub to: Format,
    /// Where to write; standard output by default.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep threads apart instead of joining those with the same name.
    #[arg(long)]
    pub per_thread: bool,
    /// Put idle pools into one line (folded only; the SVG folds and unfolds them itself).
    #[arg(long)]
    pub fold_idle: bool,
}

/// Formats of other tools.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Folded stacks in ns of thread time, for flamegraph.pl, inferno, speedscope.
    Folded,
    /// A flame graph for the browser.
    Svg,
    /// For `go tool pprof` and everything that reads it.
    Pprof,
    /// For profiler.firefox.com: timeline, call tree and flame graph of each thread.
    Firefox,
    /// For speedscope.app: each thread's stacks by time.
    Speedscope,
    /// For ui.perfetto.dev: a track per thread, slices by state, arrows from wakers.
    Perfetto,
    /// OpenTelemetry's profiles signal, as protobuf.
    Otlp,
    /// The text of `perf script`, for what reads that.
    PerfScript,
}

/// `dwell top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// A process to watch; may be given several times, or as a list. Default: the whole system.
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Time between two pictures.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub interval: Duration,
    /// End after this many pictures.
    #[arg(short = 'n', long, value_name = "N")]
    pub pictures: Option<u32>,
}

/// `dwell functions`.
#[derive(Args, Debug)]
pub struct FunctionsArgs {
    /// Functions of the kernel, as `/proc/kallsyms` names them.
    #[arg(value_name = "NAME", required_unless_present = "spin_locks")]
    pub names: Vec<String>,
    /// Instead: every acquisition and release of the kernel's spin locks, and who waited for whom.
    #[arg(long, conflicts_with = "names")]
    pub spin_locks: bool,
    /// Keep every operation on spin locks instead of those that somebody waits for: to measure the difference.
    #[arg(long, requires = "spin_locks", hide = true)]
    pub keep_all: bool,
    /// Only calls by this process; may be given several times, or as a list.
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// End after this long: 10s, 500ms, 2m. Default: Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
}

/// `dwell doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `dwell bench`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub what: Option<BenchWhat>,
    /// Rounds; each gives one pair per workload and tool.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// About how long one run takes, in seconds.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Measure other profilers too, where they are installed.
    #[arg(long)]
    pub peers: bool,
    /// Only this workload; may be given several times.
    #[arg(short, long, value_name = "NAME")]
    pub workload: Vec<String>,
    /// Measure what static probes that nobody watches cost instead. Needs gcc or clang.
    #[arg(long, conflicts_with_all = ["peers", "workload"])]
    pub probes: bool,
    /// Measure what scripts of `dwell trace` cost instead: each time a probe fires, in the process, in the kernel and by
    /// bpftrace, and until they are at work. Needs root and gcc.
    #[arg(long, conflicts_with_all = ["peers", "workload", "probes"])]
    pub scripts: bool,
    /// The folder with dwell's small test programs.
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// Write the figures to this file, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What else can be measured.
#[derive(Subcommand, Debug)]
pub enum BenchWhat {
    /// Measure what `dwell boost` gains: programs as they are and merged at each level, run in turns.
    Boost(BenchBoostArgs),
    /// Measure how right `dwell whatif` is: one recording, its predictions for a grid of changes, and the changed program
    /// itself. Needs root.
    Whatif(BenchWhatifArgs),
}

/// `dwell bench whatif`.
#[derive(Args, Debug)]
pub struct BenchWhatifArgs {
    /// How long a cell runs each time, in seconds; those where threads wait for one that has no processor a second at least.
    #[arg(long, default_value_t = 0.4)]
    pub seconds: f64,
    /// How often each cell is run; the median counts, and what runs differ by is told.
    #[arg(long, default_value_t = 2)]
    pub rounds: usize,
    /// How long the recording takes, in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub recorded: f64,
    /// Only a few cells.
    #[arg(long, conflicts_with = "held_out")]
    pub small: bool,
    /// Only cells of other threads, batches, shards and holds than the grid's, on which the model was not looked at.
    #[arg(long)]
    pub held_out: bool,
    /// Nothing is run: larger machines are simulated, beside the figures that are published of them.
    #[arg(long)]
    pub published: bool,
    /// The folder with dwell's small test programs.
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
    /// Write the figures to this file, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `dwell bench boost`.
#[derive(Args, Debug)]
pub struct BenchBoostArgs {
    /// Rounds of starts; loops and memory have an eighth of them, 5 at least.
    #[arg(long, default_value_t = 41)]
    pub rounds: usize,
    /// Only what has this text in its name ("bash", "loop:", "start: perl"); may be given several times.
    #[arg(short, long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Write the figures to this file, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Reads `10s`, `500ms`, `2m`, `1h` or plain seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit:?}: write 10s, 500ms, 2m or 1h")),
    };
    let seconds = number
        .parse::<f64>()
        .map_err(|_| format!("{text:?} is no time: write 10s, 500ms, 2m or 1h"))?
        * factor;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

fn parse_buffer(text: &str) -> Result<u32, String> {
    let kib: u32 = text.parse().map_err(|_| "not a number".to_owned())?;
    (kib.is_power_of_two() && (4..=1 << 20).contains(&kib))
        .then_some(kib)
        .ok_or("a power of two from 4 to 1048576".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert!(
            parse_duration("").is_err()
                && parse_duration("5x").is_err()
                && parse_duration("-1s").is_err()
        );
    }

    #[test]
    fn command_after_dashes_keeps_its_options() {
        let cli = Cli::try_parse_from(["dwell", "--", "ls", "-p", "--json"]).expect("valid");
        assert_eq!(cli.run.cmd, ["ls", "-p", "--json"]);
        assert!(!cli.json);
        let cli = Cli::try_parse_from(["dwell", "record", "-p", "1,2", "-p", "3"]).expect("valid");
        assert!(matches!(cli.command, Some(Command::Record(r)) if r.record.pid == [1, 2, 3]));
    }
}

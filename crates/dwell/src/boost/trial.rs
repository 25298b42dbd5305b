//! Stock against boosted: the same arguments must give the same output and the same end.
use crate::bench::statistics::median;
use anyhow::Context;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Arguments to run a program with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    args: Vec<String>,
}

/// How a probe went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Same output, same end.
    Same,
    /// The stock program prints something else each time; both ended alike.
    SameEnd,
    /// The stock program does not end by itself, so nothing could be compared.
    Endless,
}

/// Longest run of a probe.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Most output of a probe, bytes.
const OUTPUT_LIMIT: u64 = 4 << 20;
/// How long a program that was just written may be busy.
const BUSY_LIMIT: Duration = Duration::from_secs(1);

impl Probe {
    /// Arguments separated by spaces.
    pub fn of(text: &str) -> Self {
        Probe {
            args: text.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// As it is typed.
    pub fn text(&self) -> String {
        self.args.join(" ")
    }
}

impl Verdict {
    /// One word for JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::SameEnd => "same-end",
            Verdict::Endless => "endless",
        }
    }
}

/// A folder of our own for what probes write, which nobody else may enter; removed at the end.
pub fn scratch() -> anyhow::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("dwell-boost-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .context("making a temporary folder; TMPDIR names another place")
}

/// Runs every probe with both; an error says which one told them apart.
pub fn compare(
    stock: &Path,
    boosted: &Path,
    probes: &[Probe],
) -> anyhow::Result<Vec<(Probe, Verdict)>> {
    let boosted = fs::canonicalize(boosted).context("following the merged file")?;
    let scratch = scratch()?;
    let mut verdicts = Vec::new();
    for probe in probes {
        let verdict = compare_one((stock, &boosted), probe, scratch.path())?;
        verdicts.push((probe.clone(), verdict));
    }
    let told = |(_, verdict): &(Probe, Verdict)| *verdict != Verdict::Endless;
    anyhow::ensure!(
        verdicts.iter().any(told),
        "{} could not be tried: it does not end when run with {}; give arguments with which it does \
         (--test ARGS)",
        stock.display(),
        probes
            .iter()
            .map(Probe::text)
            .collect::<Vec<_>>()
            .join(" or "),
    );
    Ok(verdicts)
}

fn compare_one(
    (stock, boosted): (&Path, &Path),
    probe: &Probe,
    scratch: &Path,
) -> anyhow::Result<Verdict> {
    let Some(before) = run((stock, stock), probe, scratch)? else {
        return Ok(Verdict::Endless);
    };
    let new = run((stock, boosted), probe, scratch)?;
    let differs = |how: String| {
        anyhow::anyhow!(
            "boosted, {} {} {how}: it is not used",
            stock.display(),
            probe.text()
        )
    };
    let Some(new) = new else {
        return Err(differs(format!(
            "did not end within {} s",
            TIME_LIMIT.as_secs()
        )));
    };
    if new.status != before.status {
        return Err(differs(format!(
            "ended with {} instead of {}",
            new.status, before.status
        )));
    }
    let output = replaced(&new.output, boosted, stock);
    if output == before.output {
        return Ok(Verdict::Same);
    }
    // The time of day and process numbers differ in the stock program's own output, too.
    let after = run((stock, stock), probe, scratch)?;
    match after {
        Some(after) if after.output == before.output => {
            let (old, new) = first_difference(&before.output, &output);
            Err(differs(format!("printed {new:?} instead of {old:?}")))
        }
        _ => Ok(Verdict::SameEnd),
    }
}

struct Outcome {
    status: ExitStatus,
    output: Vec<u8>,
}

/// Runs `file` under the name of `name`; none when it does not end, or prints without end.
fn run(
    (name, file): (&Path, &Path),
    probe: &Probe,
    scratch: &Path,
) -> anyhow::Result<Option<Outcome>> {
    let path = scratch.join("output");
    let write = File::create(&path).context("making a file for the output")?;
    let (out, err) = (write.try_clone()?, write.try_clone()?);
    let mut command = command((name, file), probe, scratch);
    let child = start(command.stdout(out).stderr(err));
    let mut child = child.with_context(|| format!("running {}", file.display()))?;
    let Some(status) = wait(&mut child, &write)? else {
        return Ok(None);
    };
    let mut read = File::open(&path)?;
    read.rewind()?;
    let mut output = Vec::new();
    read.take(OUTPUT_LIMIT).read_to_end(&mut output)?;
    Ok(Some(Outcome { status, output }))
}

/// Starts a program that was just written. A child that another thread of ours is just starting has the file open
/// until it becomes another program, and a file that is written to cannot be run.
pub fn start(command: &mut Command) -> std::io::Result<Child> {
    let begin = Instant::now();
    loop {
        match command.spawn() {
            Err(why)
                if why.kind() == ErrorKind::ExecutableFileBusy && begin.elapsed() < BUSY_LIMIT =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            started => return started,
        }
    }
}

/// A run in the folder, with little around it: what is set elsewhere must not decide.
fn command((name, file): (&Path, &Path), probe: &Probe, folder: &Path) -> Command {
    let mut command = Command::new(file);
    command
        .arg0(name)
        .args(&probe.args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("LC_ALL", "C.UTF-8")
        .env("TERM", "dumb")
        // All symbols are bound at once: one that is missing shows now.
        .env("LD_BIND_NOW", "1")
        .stdin(Stdio::null())
        .process_group(0);
    command
}

fn wait(child: &mut Child, output: &File) -> anyhow::Result<Option<ExitStatus>> {
    let end = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end || output.metadata()?.len() > OUTPUT_LIMIT {
            // SAFETY: kill(2) takes numbers; the group is the child's own, which is not yet waited for.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Messages may name the program by where its file is.
fn replaced(output: &[u8], boosted: &Path, stock: &Path) -> Vec<u8> {
    let from = boosted.as_os_str().as_encoded_bytes();
    let to = stock.as_os_str().as_encoded_bytes();
    let mut text = Vec::with_capacity(output.len());
    let mut rest = output;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix(from) {
            text.extend_from_slice(to);
            rest = tail;
        } else {
            text.push(rest[0]);
            rest = &rest[1..];
        }
    }
    text
}

/// The first lines that differ.
fn first_difference(old: &[u8], new: &[u8]) -> (String, String) {
    let lines = |bytes: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().map(str::to_owned).collect()
    };
    let (old, new) = (lines(old), lines(new));
    let at = old.iter().zip(&new).take_while(|(o, n)| o == n).count();
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
    (line(&old), line(&new))
}

/// Median start-up times of both, ns of wall-clock time from the start to the end of a run.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub stock_ns: u64,
    pub boosted_ns: u64,
    /// Median of the ratios of neighbouring runs, boosted over stock.
    pub ratio: f64,
    /// Ratio of the fastest runs, which others' work disturbs least.
    pub fastest_ratio: f64,
    pub pairs: usize,
}

/// Longest time to spend on measuring.
const MEASURE_LIMIT: Duration = Duration::from_secs(5);

/// Runs both in turns under the program's name, `pairs` times each at most. The first may be merged in another way.
pub fn measure(
    name: &Path,
    (stock, boosted): (&Path, &Path),
    probe: &Probe,
    pairs: usize,
) -> anyhow::Result<Times> {
    let scratch = scratch()?;
    let time = |file: &Path| -> anyhow::Result<u64> {
        let mut command = command((name, file), probe, scratch.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        let status = start(&mut command)?.wait()?;
        let time = begin.elapsed().as_nanos() as u64;
        anyhow::ensure!(status.signal().is_none(), "{} {status}", file.display());
        Ok(time)
    };
    let start = Instant::now();
    let (mut old, mut new, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    while ratios.len() < pairs && (ratios.is_empty() || start.elapsed() < MEASURE_LIMIT) {
        let (a, b) = (time(stock)?, time(boosted)?);
        ratios.push(b as f64 / a as f64);
        old.push(a as f64);
        new.push(b as f64);
    }
    let fastest = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Times {
        stock_ns: median(&old) as u64,
        boosted_ns: median(&new) as u64,
        ratio: median(&ratios),
        fastest_ratio: fastest(&new) / fastest(&old),
        pairs: ratios.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn sh() -> PathBuf {
        fs::canonicalize("/bin/sh").expect("a shell")
    }

    /// A program that does something else is told apart by its output and by its end.
    #[test]
    fn another_program_is_told_apart() {
        let probe = [Probe::of("-c pwd")];
        let same = compare(&sh(), &sh(), &probe).expect("the same program");
        assert_eq!(same[0].1, Verdict::Same);
        for other in ["/bin/echo", "/bin/false"] {
            let error = compare(&sh(), Path::new(other), &probe).expect_err(other);
            assert!(error.to_string().contains("it is not used"), "{error}");
        }
    }

    /// What the stock program prints anew each time is not held against the merged one.
    #[test]
    fn changing_output_is_no_difference() {
        let scratch = scratch().expect("a folder");
        let script = scratch.path().join("pid.sh");
        fs::write(&script, "echo $$; exit 3").expect("a script");
        let probe = [Probe::of(script.to_str().expect("UTF-8"))];
        let verdicts = compare(&sh(), &sh(), &probe).expect("both end alike");
        assert_eq!(verdicts[0].1, Verdict::SameEnd);
    }

    #[test]
    fn endless_programs_cannot_be_tried() {
        let yes = Path::new("/usr/bin/yes");
        let error = compare(yes, yes, &[Probe::of("x")]).expect_err("endless");
        assert!(error.to_string().contains("--test"), "{error}");
    }
}

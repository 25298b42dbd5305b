//! What boosting gains: programs as they are and merged at each level, run in turns.
//!
//! As everywhere here: stock, boosted, stock, boosted, …; each boosted run is divided by the mean of its
//! two neighbours, and the median of these ratios is given. Stock against stock shows the noise.
mod cases;
mod memory;
mod profile;
mod report;
mod shell;

pub use report::BoostReport;

use super::process::scratch;
use super::statistics::{estimate, median, pair};
use crate::boost::merged;
use anyhow::{Context, Result, ensure};
use cases::{Case, Kind};
use report::{Figure, Row, Way};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is measured: without and with the C library, at each level. Shells' scripts are measured with it only.
const WAYS: [Way; 5] = [
    Way {
        libc: false,
        level: 0,
    },
    Way {
        libc: false,
        level: 1,
    },
    Way {
        libc: true,
        level: 1,
    },
    Way {
        libc: true,
        level: 2,
    },
    Way {
        libc: true,
        level: 3,
    },
];
/// Of loops this, too, by a recording of the very work: the most that hot functions together can gain.
const BY_PROFILE: Way = Way {
    libc: true,
    level: 4,
};
/// Loops run this many times less often than starts, which are short.
const LOOPS_LESS_OFTEN: usize = 8;
/// Fewest rounds of a loop.
const LOOP_ROUNDS: usize = 5;

/// Measures everything, or that with one of the texts in its title, `rounds` times. What is not installed or
/// cannot be boosted is left out.
pub fn run(rounds: usize, only: &[String], progress: &mut dyn FnMut(&str)) -> Result<BoostReport> {
    ensure!(rounds > 0, "at least one round is needed");
    let mut report = BoostReport::new(rounds);
    let mut ways_of_loops = WAYS.to_vec();
    match profile::can_be_recorded() {
        Ok(()) => ways_of_loops.push(BY_PROFILE),
        Err(why) => report.leave_out("level 4", &format!("{why:#}")),
    }
    let mut add = |title: String, measure: &dyn Fn() -> Result<Row>| {
        if !only.is_empty() && !only.iter().any(|text| title.contains(text)) {
            return;
        }
        progress(&title);
        match measure() {
            Ok(row) => report.rows.push(row),
            Err(why) => report.leave_out(&title, &format!("{why:#}")),
        }
    };
    for case in cases::ALL {
        add(case.title(), &|| {
            let ways = match case.kind {
                Kind::Loop => &ways_of_loops,
                Kind::Start | Kind::Memory | Kind::Shell => &WAYS[..],
            };
            measure(case, ways, rounds_of(case.kind, rounds))
        });
    }
    let with_libc: Vec<Way> = WAYS.into_iter().filter(|way| way.libc).collect();
    for shell in shell::all() {
        let rounds = rounds_of(Kind::Shell, rounds);
        add(shell.title(), &|| shell.measure(&with_libc, rounds));
    }
    Ok(report)
}

/// Rounds of a kind, of which starts have so many.
fn rounds_of(kind: Kind, rounds: usize) -> usize {
    match kind {
        Kind::Start => rounds,
        Kind::Loop | Kind::Memory | Kind::Shell => (rounds / LOOPS_LESS_OFTEN).max(LOOP_ROUNDS),
    }
}

/// A program as it is, or merged; or a folder of programs.
struct Variant {
    /// None: as it is.
    way: Option<Way>,
    file: PathBuf,
}

fn measure(case: &Case, ways: &[Way], rounds: usize) -> Result<Row> {
    let scratch = scratch()?;
    let stock = super::programs::find(&[case.program]).context("it is not installed")?;
    let stock = std::fs::canonicalize(stock)?;
    let mut variants = vec![Variant {
        way: None,
        file: stock.clone(),
    }];
    let profile = match ways.contains(&BY_PROFILE) {
        true => Some(profile::record(case, &stock, scratch.path())?),
        false => None,
    };
    for (number, &way) in ways.iter().enumerate() {
        let folder = scratch.path().join(number.to_string());
        std::fs::create_dir(&folder)?;
        let file = folder.join(stock.file_name().context("a program has a name")?);
        let profile = profile.as_deref().filter(|_| way == BY_PROFILE);
        merged(&stock, (way.libc, way.level), profile, &file, case.probe)?;
        variants.push(Variant {
            way: Some(way),
            file,
        });
    }
    let once = |file: &Path| match case.kind {
        Kind::Memory => memory::private_dirty(file, &stock, case),
        // Stock runs between all others: without a run that does not count, it alone would have warm caches.
        Kind::Start => time(file, &stock, case, scratch.path())
            .and_then(|_| time(file, &stock, case, scratch.path())),
        Kind::Loop | Kind::Shell => time(file, &stock, case, scratch.path()),
    };
    let (stock, figures) = interleave(&variants, rounds, |way| case.limit(way), once)?;
    Ok(Row {
        kind: case.kind,
        program: case.program,
        args: case.args.join(" "),
        stock,
        figures,
    })
}

/// All variants in turns, the first one, stock, between all. Gives stock's median, and the figures.
fn interleave(
    variants: &[Variant],
    rounds: usize,
    limit: impl Fn(Way) -> f64,
    mut once: impl FnMut(&Path) -> Result<f64>,
) -> Result<(f64, Vec<Figure>)> {
    let stock = &variants[0].file;
    once(stock)?;
    let mut before = once(stock)?;
    let mut alone = vec![before];
    let mut triples = vec![Vec::new(); variants.len()];
    for _ in 0..rounds {
        for (variant, triples) in variants.iter().zip(&mut triples) {
            let with = once(&variant.file)?;
            let after = once(stock)?;
            triples.push((before, with, after));
            alone.push(after);
            before = after;
        }
    }
    let figures = variants.iter().zip(&triples).map(|(variant, triples)| {
        let with: Vec<f64> = triples.iter().map(|t| t.1).collect();
        Figure {
            way: variant.way,
            value: median(&with),
            ratio: estimate(&pair(triples).ratios),
            limit: variant.way.map(&limit),
        }
    });
    Ok((median(&alone), figures.collect()))
}

/// Wall-clock time from the start of a run to its end, ns; of a loop its processor time, which a shared machine
/// disturbs less.
fn time(file: &Path, name: &Path, case: &Case, folder: &Path) -> Result<f64> {
    let mut command = command(file, name, case);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let ended = super::process::wait(&command.spawn()?)?;
    let time = start.elapsed().as_nanos() as f64;
    ensure!(
        ended.success,
        "{} {} did not end with success",
        file.display(),
        case.args.join(" ")
    );
    Ok(match case.kind {
        Kind::Loop => ended.cpu_s * 1e9,
        _ => time,
    })
}

/// The file under the stock program's name.
fn command(file: &Path, name: &Path, case: &Case) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(file);
    command.arg0(name).args(case.args).env("LC_ALL", "C.UTF-8");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a real program: there are figures for each level, and noise.
    #[test]
    fn bash_is_measured_at_each_level() {
        let case = cases::ALL.iter().find(|c| c.program == "bash");
        let row = measure(case.expect("a case"), &WAYS, 2).expect("bash can be boosted");
        let levels: Vec<_> = row.figures.iter().map(|f| f.way.map(|w| w.level)).collect();
        assert_eq!(levels[0], None);
        assert!(levels[1..].iter().eq(WAYS.map(|w| Some(w.level)).iter()));
        assert!(
            row.figures
                .iter()
                .all(|f| f.value > 0.0 && f.ratio.median > 0.05)
        );
    }

    #[test]
    fn memory_of_a_waiting_program_is_read() {
        let of_memory = |c: &&Case| c.kind == Kind::Memory && c.program == "bash";
        let case = cases::ALL.iter().find(of_memory).expect("a case");
        let bash = std::fs::canonicalize("/bin/bash").expect("bash");
        let bytes = memory::private_dirty(&bash, &bash, case).expect("it waits");
        assert!(bytes > 4096.0 && bytes % 1024.0 == 0.0, "{bytes}");
    }
}

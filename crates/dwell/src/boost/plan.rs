//! `dwell boost plan`: what boosting would do to a program, and what it would gain.
use super::arguments::PlanArgs;
use super::calls::{calls_json, calls_text};
use super::hot::{hot_json, hot_text, huge_text};
use super::subject::Subject;
use super::trial::{self, Probe, Times, Verdict};
use super::{Tried, make};
use dwell_booster::{Plan, Refusal};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Most pairs of runs that are timed.
const PAIRS: usize = 51;

/// Prints the plan; a refusal is an answer, too, but the exit code tells.
pub fn plan(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    args.how.check()?;
    let made = examine(args);
    let mut to = std::io::stdout();
    match made {
        Ok(answer) if args.json => {
            writeln!(to, "{}", serde_json::to_string_pretty(&answer.json())?)?;
        }
        Ok(answer) => answer.print(&mut to)?,
        Err(error) if args.json => {
            let kind = error
                .downcast_ref::<Refusal>()
                .map_or("trial", Refusal::kind);
            let program = args.program.to_string_lossy();
            let refused = json!({ "kind": kind, "why": error.to_string() });
            let answer = json!({ "program": program, "refused": refused });
            writeln!(to, "{}", serde_json::to_string_pretty(&answer)?)?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    }
    Ok(ExitCode::SUCCESS)
}

struct Answer {
    plan: Plan,
    tried: Tried,
    times: Times,
    /// With the profile (second) and without it (first), when there is one.
    by_profile: Option<Times>,
    timed: Probe,
}

fn examine(args: &PlanArgs) -> anyhow::Result<Answer> {
    let subject = Subject::read(&args.program, &args.how)?;
    let plan = dwell_booster::plan(&subject.inputs, &subject.options)?;
    let scratch = trial::scratch()?;
    // Under its own name: some programs do what they are called.
    let to = scratch
        .path()
        .join(subject.path.file_name().unwrap_or_default());
    let tried = make(&subject, &to, &args.how.probes())?;
    let ends = |(_, verdict): &&(Probe, Verdict)| *verdict != Verdict::Endless;
    let timed = tried
        .verdicts
        .iter()
        .find(ends)
        .map(|(probe, _)| probe.clone());
    let timed = timed.expect("make gives out nothing that no probe has tried");
    let name = &subject.path;
    let times = trial::measure(name, (name, tried.file.path()), &timed, PAIRS)?;
    let by_profile = match &subject.options.profile {
        Some(_) => Some(without_profile(&subject, &tried, (&to, &timed), args)?),
        None => None,
    };
    Ok(Answer {
        plan,
        tried,
        times,
        by_profile,
        timed,
    })
}

/// What the profile alone gains: the same merge is made without it.
fn without_profile(
    subject: &Subject,
    with: &Tried,
    (to, timed): (&Path, &Probe),
    args: &PlanArgs,
) -> anyhow::Result<Times> {
    let mut options = subject.options.clone();
    options.profile = None;
    let plain = Subject {
        path: subject.path.clone(),
        inputs: subject.inputs.clone(),
        options,
    };
    let to = to.with_extension("plain");
    let without = make(&plain, &to, &args.how.probes())?;
    let both = (without.file.path(), with.file.path());
    trial::measure(&subject.path, both, timed, PAIRS)
}

/// A technique: its name, and what it would apply to.
type Technique = (&'static str, String);

impl Answer {
    fn techniques(&self) -> Vec<Technique> {
        let plan = &self.plan;
        let merged = self.tried.built.merged.len();
        vec![
            (
                "merge (level 0)",
                format!("one file instead of {}", merged + 1),
            ),
            (
                "direct calls (level 1)",
                self.tried.built.direct.as_ref().map_or_else(
                    || {
                        format!(
                            "{} of {} PLT slots lead into the merged file",
                            plan.plt_slots_inside, plan.plt_slots
                        )
                    },
                    calls_text,
                ),
            ),
            (
                "one address per boot (level 2)",
                match self.tried.built.relative {
                    0 => "no relative relocation is left".into(),
                    left => format!("{left} relative relocations"),
                },
            ),
            (
                "remembered processor (level 3)",
                self.tried.built.remembered.map_or_else(
                    || "glibc's questions to the processor".into(),
                    |(of, all)| format!("{of} of {all} places that ask the processor"),
                ),
            ),
            (
                "hot functions together (level 4)",
                self.tried.built.hot.as_ref().map_or_else(
                    || "needs a recording of the program at work (--profile)".into(),
                    hot_text,
                ),
            ),
            (
                "huge pages for them",
                huge_text(self.tried.built.hot.as_ref()),
            ),
        ]
    }

    fn print(&self, to: &mut impl Write) -> std::io::Result<()> {
        let plan = &self.plan;
        writeln!(to, "{} can be boosted.\n", plan.program)?;
        for library in &plan.libraries {
            match &library.reason {
                None => writeln!(
                    to,
                    "  merged  {:<24} {} KiB, {}",
                    library.name,
                    library.size.div_ceil(1024),
                    library.path
                )?,
                Some(why) => writeln!(to, "  stays   {:<24} {why}", library.name)?,
            }
        }
        let before: usize = plan.relocations.iter().map(|r| r.count).sum();
        let built = &self.tried.built;
        writeln!(
            to,
            "\n  at start: relocations {before} -> {} that only add an address, {} with a symbol\n  \
             symbols looked up {} -> {}",
            built.relative, built.symbolic, plan.lookups, plan.lookups_left
        )?;
        writeln!(to)?;
        for (name, what) in self.techniques() {
            writeln!(to, "  {name:<34} {what}")?;
        }
        let t = &self.times;
        writeln!(
            to,
            "\n  measured: {:.2} ms stock, {:.2} ms boosted, x{:.2} ({} pairs of {})\n  \
             tried with {}: the same as stock",
            t.stock_ns as f64 / 1e6,
            t.boosted_ns as f64 / 1e6,
            t.ratio,
            t.pairs,
            self.timed.text(),
            tried_with(&self.tried.verdicts),
        )?;
        if let Some(t) = &self.by_profile {
            writeln!(
                to,
                "  by the profile alone: {:.2} ms without it, {:.2} ms with it, x{:.2}",
                t.stock_ns as f64 / 1e6,
                t.boosted_ns as f64 / 1e6,
                t.ratio
            )?;
        }
        for note in &plan.notes {
            writeln!(to, "  note: {note}")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let plan = &self.plan;
        let libraries = plan.libraries.iter().map(|l| {
            json!({ "name": l.name, "path": l.path, "bytes": l.size, "merged": l.merged, "reason": l.reason })
        });
        let techniques = self.techniques();
        let techniques = techniques
            .iter()
            .map(|(name, what)| json!({ "name": name, "applies_to": what }));
        let counts = plan.relocations.iter();
        let relocations = counts.map(|r| (r.kind.clone(), json!(r.count)));
        let (built, times) = (&self.tried.built, &self.times);
        json!({
            "program": plan.program,
            "randomized": plan.randomized,
            "libraries": libraries.collect::<Vec<_>>(),
            "relocations": relocations.collect::<serde_json::Map<_, _>>(),
            "relocations_left": { "relative": built.relative, "symbolic": built.symbolic },
            "lookups": plan.lookups,
            "lookups_left": plan.lookups_left,
            "plt_slots": plan.plt_slots,
            "plt_slots_inside": plan.plt_slots_inside,
            "techniques": techniques.collect::<Vec<_>>(),
            "direct": built.direct.as_ref().map(calls_json),
            "hot": built.hot.as_ref().map(hot_json),
            "tried": verdicts_json(&self.tried.verdicts),
            "measured": {
                "args": self.timed.text(),
                "stock_ns": times.stock_ns,
                "boosted_ns": times.boosted_ns,
                "ratio": times.ratio,
                "pairs": times.pairs,
            },
            "by_profile": self.by_profile.as_ref().map(|t| json!({
                "without_ns": t.stock_ns,
                "with_ns": t.boosted_ns,
                "ratio": t.ratio,
                "pairs": t.pairs,
            })),
            "notes": plan.notes,
        })
    }
}

/// Verdicts for JSON.
pub fn verdicts_json(verdicts: &[(Probe, Verdict)]) -> Value {
    let all = verdicts.iter();
    all.map(|(probe, verdict)| json!({ "args": probe.text(), "verdict": verdict.name() }))
        .collect()
}

/// The probes that told something, for a sentence.
pub fn tried_with(verdicts: &[(Probe, Verdict)]) -> String {
    let told = verdicts.iter().filter(|(_, v)| *v != Verdict::Endless);
    told.map(|(probe, _)| probe.text())
        .collect::<Vec<_>>()
        .join(" and ")
}

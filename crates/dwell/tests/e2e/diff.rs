//! `dwell diff`: a remedy's gain as the program itself counts it, and what `--fail-above` makes of it.

use crate::common::*;
use dwell_report::DiffAnswer;
use dwell_report::answer::FindingsAnswer;
use serde_json::Value;

/// A recording of `habits`, and what the program says itself.
struct Made {
    recorded: Recorded,
    truth: Value,
    _scratch: Scratch,
}

fn convoy(batch: &str) -> Made {
    let scratch = Scratch::new();
    let args = [
        "spin-convoy",
        "sick",
        "--seconds",
        "1.5",
        "--batch",
        batch,
        "--timed",
        "0",
    ];
    let recorded = launch(&scratch, &["-F", "250"], "habits", &args);
    Made {
        truth: serde_json::from_str(&recorded.stdout).expect("JSON"),
        recorded,
        _scratch: scratch,
    }
}

impl Made {
    fn units(&self) -> u64 {
        number(&self.truth, "units")
    }

    fn batch_that_ends_it(&self) -> u64 {
        let output = dwell(&["findings", "--json", &self.recorded.path]).output();
        let answer: FindingsAnswer =
            serde_json::from_slice(&output.expect("dwell runs").stdout).expect("JSON");
        let numbers = answer.findings.iter().flat_map(|f| &f.evidence);
        let mut batches = numbers.filter(|n| n.label == "units per acquisition that end it");
        batches.next().expect("a spin convoy").value as u64
    }

    fn cpu_of_unit(&self) -> f64 {
        number(&self.truth, "cpu_ns") as f64 / self.units() as f64
    }
}

/// Exit code and standard output.
fn diff(from: &Made, to: &Made, options: &[&str]) -> (Option<i32>, String) {
    let work = format!("{},{}", from.units(), to.units());
    let paths = [from.recorded.path.as_str(), &to.recorded.path];
    let args = [&["diff", "--work", &work], &paths[..], options].concat();
    let output = dwell(&args).output().expect("dwell runs");
    (
        output.status.code(),
        String::from_utf8(output.stdout).expect("text"),
    )
}

/// What it says, however its lines are broken.
fn says(from: &Made, to: &Made) -> String {
    let (_, text) = diff(from, to, &[]);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_remedys_gain_is_what_the_program_counts() {
    let sick = convoy("1");
    // What the finding says is done.
    let cured = convoy(&sick.batch_that_ends_it().to_string());
    let (exit, text) = diff(&sick, &cured, &["--json"]);
    assert_eq!(exit, Some(0));
    let answer: DiffAnswer = serde_json::from_str(&text).expect("JSON");
    let told = answer.measure("running").expect("it ran");
    for (told, made) in [(told.before, &sick), (told.after, &cured)] {
        // The program's number leaves out what threads do before and after their work.
        let ratio = told / made.cpu_of_unit();
        assert!((0.99..1.03).contains(&ratio), "{told}: {ratio}");
    }
    let gone: Vec<&str> = answer
        .findings_gone
        .iter()
        .map(|f| f.rule.as_str())
        .collect();
    assert_eq!(gone, ["spin-convoy"]);
    let worst = answer.functions.first().expect("a function");
    assert_eq!(worst.function.function, "lock_queue");
    assert!(worst.own.difference < 0.0, "{worst:?}");

    let [check] = answer.predictions.as_slice() else {
        panic!("{:?}", answer.predictions)
    };
    println!("{check:?}");
    assert_eq!(
        (check.rule.as_str(), check.measure.as_str()),
        ("spin-convoy", "running")
    );
    // A unit takes some 20 ns: the machine's own speed differs by as much as a tenth of the sick program's.
    let range = check.low..check.high + 0.1;
    assert!(range.contains(&check.measured), "{check:?}");
    assert!(says(&sick, &cured).contains(check.verdict.words()));
    // A remedy that was not applied.
    let not = says(&sick, &sick);
    assert!(
        not.contains("still spin-convoy") && not.contains("less than predicted"),
        "{not}"
    );

    let picture = sick.recorded.path.replace(".dwell", ".svg");
    let (exit, text) = diff(&cured, &sick, &["--fail-above", "5%", "--svg", &picture]);
    assert_eq!(exit, Some(1), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let picture = std::fs::read_to_string(&picture).expect("a picture");
    assert!(picture.contains("lock_queue ("), "{picture}");
    assert_eq!(diff(&sick, &cured, &["--fail-above", "5%"]).0, Some(0));
}

#[test]
#[ignore = "needs root and the test programs"]
fn mistakes_are_named() {
    let one = convoy("1");
    let path = one.recorded.path.as_str();
    let says = |args: &[&str]| {
        let output = dwell(&[&["diff"], args].concat())
            .output()
            .expect("dwell runs");
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(says(&[path]).contains("--after"));
    assert!(says(&[path, path, "--work", "1"]).contains("a number for each of the 2"));
    assert!(says(&[path, path, "--work", "0,1"]).contains("above zero"));
    assert!(says(&[path, path, "--fail-above", "much"]).contains("5%"));
    assert!(says(&[path, "/nowhere.dwell"]).contains("/nowhere.dwell"));
}

//! What findings said their remedies would save, beside what is measured.
use super::{DiffAnswer, PredictionCheck, Verdict};
use dwell_findings::{Finding, Saves};

/// Beside the measurement, what a finding before predicted. None where it predicts nothing that recordings show, or not the
/// same work is compared.
pub(super) fn check(answer: &DiffAnswer, finding: &Finding) -> Option<PredictionCheck> {
    let measure = match finding.effect.saves {
        Saves::CpuTime => "running",
        Saves::Duration => "duration",
        Saves::Other => return None,
    };
    if !matches!(answer.per.as_str(), "run" | "work") {
        return None;
    }
    let change = answer.measure(measure).filter(|c| c.before > 0.0)?;
    let [low, high] = [finding.effect.low, finding.effect.high].map(|s| s * finding.effect.part);
    let measured = -change.difference / change.before;
    let noise = change.noise.map(|noise| noise / change.before);
    Some(PredictionCheck {
        rule: finding.rule.clone(),
        measure: measure.to_owned(),
        low,
        high,
        measured,
        noise,
        verdict: verdict(low, high, measured, noise.unwrap_or(0.0)),
    })
}

fn verdict(low: f64, high: f64, measured: f64, noise: f64) -> Verdict {
    if measured < low - noise {
        Verdict::Less
    } else if measured > high + noise {
        Verdict::More
    } else {
        Verdict::AsPredicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Change, Measure};
    use dwell_findings::{Confidence, Effect, Severity};

    fn finding(saves: Saves, part: f64) -> Finding {
        Finding {
            rule: "spin-convoy".to_owned(),
            severity: Severity::High,
            title: String::new(),
            evidence: Vec::new(),
            stacks: Vec::new(),
            remedy: String::new(),
            effect: Effect {
                saves,
                part,
                of: String::new(),
                low: 0.4,
                high: 0.6,
                how: String::new(),
            },
            confidence: Confidence::High,
            page: String::new(),
        }
    }

    fn answer(per: &str, after: f64, noise: Option<f64>) -> DiffAnswer {
        let change = Change {
            before: 200.0,
            after,
            difference: after - 200.0,
            noise,
            ..Change::default()
        };
        DiffAnswer {
            per: per.to_owned(),
            measures: vec![Measure {
                name: "running".to_owned(),
                change,
            }],
            ..DiffAnswer::default()
        }
    }

    #[test]
    fn a_prediction_stands_beside_its_measurement() {
        let told = |after, noise| {
            let found = check(&answer("run", after, noise), &finding(Saves::CpuTime, 1.0));
            found.expect("a prediction").verdict
        };
        assert_eq!(told(100.0, None), Verdict::AsPredicted);
        assert_eq!(told(130.0, None), Verdict::Less);
        assert_eq!(told(130.0, Some(12.0)), Verdict::AsPredicted);
        assert_eq!(told(60.0, None), Verdict::More);
        // Half of the CPU time is these threads': no more than half as much can be saved.
        let half = check(&answer("run", 150.0, None), &finding(Saves::CpuTime, 0.5));
        let half = half.expect("a prediction");
        assert_eq!((half.low, half.high, half.measured), (0.2, 0.3, 0.25));
    }

    #[test]
    fn what_recordings_do_not_show_is_not_checked() {
        let of = |per, saves| check(&answer(per, 100.0, None), &finding(saves, 1.0));
        assert!(of("work", Saves::CpuTime).is_some());
        assert_eq!(of("second", Saves::CpuTime), None);
        assert_eq!(of("run", Saves::Other), None);
        assert_eq!(of("run", Saves::Duration), None);
    }
}

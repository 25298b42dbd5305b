//! What became of hot functions, for people and for programs.
use dwell_booster::{HotReport, Share};
use serde_json::{Value, json};

/// How many were copied together, what that covers, and why others were not.
pub fn hot_text(hot: &HotReport) -> String {
    let percent = |share: &Share| 100.0 * share.time_ns as f64 / hot.time_ns.max(1) as f64;
    let mut text = format!(
        "{} functions, {} KiB, {:.0} % of the recorded time",
        hot.cloned.functions,
        hot.code_bytes.div_ceil(1024),
        percent(&hot.cloned)
    );
    for (obstacle, share) in &hot.left {
        let (count, percent) = (share.functions, percent(share));
        text += &format!("; left: {count} with {percent:.1} %, {obstacle}");
    }
    text += &format!(
        "; {} calls and jumps and {} entries lead there",
        hot.branches, hot.entries
    );
    if hot.jumps_back > 0 {
        text += &format!(
            "; {} of {} indirect jumps lead back to the original",
            hot.jumps_back,
            hot.jumps_back + hot.tables
        );
    }
    for path in &hot.other_builds {
        text += &format!("; {path} was recorded in another build: its time counts nowhere");
    }
    text
}

/// Whether copied functions can lie on huge pages.
pub fn huge_text(hot: Option<&HotReport>) -> String {
    match hot {
        None => "small pages: only what a recording brings together is worth one",
        Some(hot) if hot.huge => {
            "they can lie on one, where the file system gives some (tmpfs with huge=always); status tells"
        }
        Some(_) => "small pages: the program is linked to an address that is no huge page's",
    }
    .to_owned()
}

/// The same for programs.
pub fn hot_json(hot: &HotReport) -> Value {
    let left = hot.left.iter().map(|(obstacle, share)| {
        json!({ "why": obstacle.to_string(), "functions": share.functions, "time_ns": share.time_ns })
    });
    json!({
        "time_ns": hot.time_ns,
        "functions": hot.cloned.functions,
        "functions_time_ns": hot.cloned.time_ns,
        "code_bytes": hot.code_bytes,
        "left": left.collect::<Vec<_>>(),
        "entries": hot.entries,
        "branches": hot.branches,
        "tables": hot.tables,
        "jumps_back": hot.jumps_back,
        "other_builds": hot.other_builds,
        "huge_page_possible": hot.huge,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_booster::Obstacle;

    #[test]
    fn shares_and_reasons_are_told() {
        let mut hot = HotReport {
            time_ns: 1000,
            cloned: Share {
                functions: 3,
                time_ns: 900,
            },
            code_bytes: 5000,
            ..HotReport::default()
        };
        let left = Share {
            functions: 1,
            time_ns: 100,
        };
        hot.left.insert(Obstacle::ShortJump, left);
        hot.other_builds.push("/lib/x.so".into());
        let text = hot_text(&hot);
        assert!(text.starts_with("3 functions, 5 KiB, 90 %"), "{text}");
        assert!(text.contains("1 with 10.0 %, a short jump"), "{text}");
        assert!(
            text.contains("/lib/x.so was recorded in another build"),
            "{text}"
        );
        assert_eq!(hot_json(&hot)["left"][0]["functions"], 1);
    }
}

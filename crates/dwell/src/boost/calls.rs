//! What became of calls between modules, for people and for programs.
use dwell_booster::{Count, DirectCalls};
use serde_json::{Value, json};

/// How many calls are direct, and why the others are not.
pub fn calls_text(direct: &DirectCalls) -> String {
    let calls = &direct.calls;
    let mut text = format!("{} of {} calls direct", calls.direct, calls.found());
    let left = [
        (calls.stays, "lead to libraries that stay"),
        (
            calls.chosen,
            "to functions that are chosen at start (IFUNC)",
        ),
        (calls.absent, "to nothing that is known"),
    ];
    for (count, why) in left.iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {why}");
    }
    let others = [
        (&direct.jumps, "stubs and jumps"),
        (&direct.loads, "loaded addresses"),
    ];
    for (count, what) in others {
        text += &format!("; {} of {} {what}", count.direct, count.found());
    }
    if direct.unread_functions > 0 {
        text += &format!("; {} functions could not be read", direct.unread_functions);
    }
    text
}

/// The same for programs.
pub fn calls_json(direct: &DirectCalls) -> Value {
    let count = |c: &Count| {
        json!({
            "found": c.found(),
            "direct": c.direct,
            "stays": c.stays,
            "chosen_at_start": c.chosen,
            "unknown": c.absent,
        })
    };
    json!({
        "calls": count(&direct.calls),
        "jumps": count(&direct.jumps),
        "loads": count(&direct.loads),
        "unread_functions": direct.unread_functions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named_where_there_are_any() {
        let count = |direct, stays, chosen, absent| Count {
            direct,
            stays,
            chosen,
            absent,
        };
        let mut direct = DirectCalls {
            calls: count(7, 2, 0, 0),
            jumps: count(3, 1, 0, 0),
            loads: count(0, 0, 0, 0),
            unread_functions: 0,
        };
        assert_eq!(
            calls_text(&direct),
            "7 of 9 calls direct, 2 lead to libraries that stay; 3 of 4 stubs and jumps; 0 of 0 loaded addresses"
        );
        direct.calls.chosen = 1;
        direct.unread_functions = 5;
        let text = calls_text(&direct);
        assert!(text.starts_with("7 of 10") && text.contains("1 to functions that are chosen"));
        assert!(text.ends_with("5 functions could not be read"), "{text}");
    }
}

//! What was not counted of a process' locks, in few words.

/// Functions that are named of those that share a reason.
const NAMED: usize = 4;

/// Puts what was missed for the same reason together. What names no place (`FUNCTION, … at ADDRESS: REASON`) is told
/// as it is.
pub fn in_short(missed: &[String]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for text in missed {
        let (function, reason) = place(text).unwrap_or(("", text));
        let known = reasons.iter().position(|(known, _)| *known == reason);
        let at = known.unwrap_or(reasons.len());
        if known.is_none() {
            reasons.push((reason, Vec::new()));
        }
        let functions = &mut reasons[at].1;
        if !function.is_empty() && !functions.contains(&function) {
            functions.push(function);
        }
    }
    let told = reasons.iter().map(|(reason, functions)| {
        let more = functions.len().saturating_sub(NAMED);
        let named = functions[..functions.len() - more].join(", ");
        match (functions.len(), more) {
            (0, _) => (*reason).to_owned(),
            (_, 0) => format!("part of {named}: {reason}"),
            _ => format!("part of {named} and {more} more functions: {reason}"),
        }
    });
    told.collect()
}

/// Function and reason of a text about a place in a function.
fn place(text: &str) -> Option<(&str, &str)> {
    let (place, reason) = text.split_once(": ")?;
    let (function, _) = place.split_once(", ")?;
    place.contains(" at 0x").then_some((function, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_one_reason_is_told_once() {
        let part = |function: &str, part: &str, why: &str| {
            format!("{function}, {part} of the part at 0x85bc0: {why}")
        };
        let (jump, room) = ("a jump leads into it", "there is no room: none");
        let mut missed = vec![
            part("pthread_mutex_lock", "entry", room),
            part("pthread_mutex_lock", "returns", jump),
            part("pthread_mutex_lock", "returns", room),
            "what it did before: much".to_owned(),
            part("sem_wait", "entry", room),
        ];
        let wanted = [
            "part of pthread_mutex_lock, sem_wait: there is no room: none",
            "part of pthread_mutex_lock: a jump leads into it",
            "what it did before: much",
        ];
        assert_eq!(in_short(&missed), wanted);
        missed.extend((0..10).map(|n| part(&format!("f{n}"), "entry", room)));
        let text = &in_short(&missed)[0];
        let wanted = "part of pthread_mutex_lock, sem_wait, f0, f1 and 8 more functions: ";
        assert!(text.starts_with(wanted), "{text}");
    }
}

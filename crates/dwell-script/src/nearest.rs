//! The known name nearest to a wrong one.

/// Names longer than this are not compared: nobody mistypes them, programs make them.
const LONGEST: usize = 64;

/// The nearest of `known`, if it is near enough to have been meant.
pub fn nearest<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = (wrong.chars().count() / 3).max(1);
    known
        .filter(|name| !name.is_empty() && *name != wrong)
        .filter_map(|name| Some((distance(wrong, name, limit)?, name)))
        .min_by_key(|(distance, name)| (*distance, name.len()))
        .map(|(_, name)| name)
}

/// The number of letters to insert, remove, replace or swap with their neighbour; `None` above `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let a: Vec<char> = a.chars().take(LONGEST + 1).collect();
    let b: Vec<char> = b.chars().take(LONGEST + 1).collect();
    if a.len().abs_diff(b.len()) > limit || a.len().max(b.len()) > LONGEST {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_swapped_letter_and_refuses_what_is_far() {
        let known = ["timestamp", "vtimestamp", "execname", "pid"];
        let find = |wrong| nearest(wrong, known.iter().copied());
        assert_eq!(find("timestmap"), Some("timestamp"));
        assert_eq!(find("exename"), Some("execname"));
        assert_eq!(find("pod"), Some("pid"));
        assert_eq!(find("nothing_like_it"), None);
    }
}

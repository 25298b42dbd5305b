//! Processes that somebody who records a server may miss.
use std::collections::BTreeSet;
use std::fs;

/// Says that processes which are recorded have children already that are not: only those born later are followed.
pub fn children(pids: &[u32]) -> Option<String> {
    let mut known: BTreeSet<u32> = pids.iter().copied().collect();
    let mut todo = pids.to_vec();
    let mut left_out = Vec::new();
    while let Some(pid) = todo.pop() {
        for child in children_of(pid) {
            if known.insert(child) {
                left_out.push(child);
                todo.push(child);
            }
        }
    }
    left_out.sort_unstable();
    let (first, count) = (*left_out.first()?, left_out.len());
    let all: Vec<String> = pids
        .iter()
        .chain(&left_out)
        .map(|pid| pid.to_string())
        .collect();
    let them = match count {
        1 => format!("a child that runs already, {first} ({})", name_of(first)),
        _ => format!(
            "{count} children that run already, {first} ({}) the first",
            name_of(first)
        ),
    };
    Some(format!(
        "not recorded: {them}; to record them too: -p {}",
        all.join(",")
    ))
}

fn children_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    // Each number has a blank behind it.
    let children: String = threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .collect();
    let numbers = children.split_ascii_whitespace();
    numbers.filter_map(|pid| pid.parse().ok()).collect()
}

fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_of_children_are_named_unless_they_are_recorded() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60 & echo ready; wait' & wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut ready = [0; 6];
        let out = shell.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(out, &mut ready).expect("it says so");
        let [inner] = children_of(shell.id())[..] else {
            panic!("one child");
        };
        let [sleeper] = children_of(inner)[..] else {
            panic!("one child of it");
        };
        // It was its parent's copy until it begins its own program.
        while name_of(sleeper) != "sleep" {
            std::thread::yield_now();
        }
        let said = children(&[shell.id()]).expect("two are left out");
        let list = format!("-p {},{inner},{sleeper}", shell.id());
        assert!(
            said.contains("2 children") && said.ends_with(&list),
            "{said}"
        );
        let said = children(&[shell.id(), inner]).expect("one is left out");
        assert!(said.contains("sleep)"), "{said}");
        assert_eq!(children(&[shell.id(), inner, sleeper]), None);
        for pid in [sleeper, inner] {
            Command::new("kill")
                .arg(pid.to_string())
                .status()
                .expect("kill runs");
        }
        shell.wait().expect("it ends");
    }
}

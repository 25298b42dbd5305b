//! What scripts become: the checked form of snippets, each expression and conversion spelled out.

mod shared;

use dwell_script::{Input, Macros, compile};

/// The checked form of a script, or of a clause with that body.
fn form(snippet: &str) -> String {
    let source = match snippet.contains('{') && !snippet.starts_with("if") {
        true => snippet.replace("\\n", "\n"),
        false => format!("f:insert:entry {{ {snippet}; }}"),
    };
    let input = Input {
        source: &source,
        macros: Macros {
            arguments: vec!["x.d", "7", "a b"],
            variables: vec![("target", 100), ("pid", 2)],
        },
        options: {
            let mut options = dwell_script::Options::default();
            options.set("defaultargs", None).expect("it is an option");
            options
        },
        ..Input::default()
    };
    match compile(&input, &shared::Small) {
        Ok((script, _)) => script.to_string(),
        Err(error) => format!("{error}\n{}", error.excerpt()),
    }
}

/// Pairs of a snippet and its form, which begins with `=> ` on each of its lines.
const FORMS: &str = include_str!("forms.txt");

#[test]
fn snippets_have_their_forms() {
    let (mut written, mut made) = (String::new(), String::new());
    let mut count = 0;
    for line in FORMS.lines().filter(|line| !line.is_empty()) {
        written.push_str(line);
        written.push('\n');
        if line.starts_with("=> ") {
            continue;
        }
        count += 1;
        made.push_str(line);
        made.push('\n');
        for line in form(line).lines() {
            made.push_str(&format!("=> {line}\n"));
        }
    }
    if let Some(path) = std::env::var_os("DWELL_WRITE_FORMS") {
        std::fs::write(path, &made).expect("the file can be written");
    }
    assert!(count > 60);
    let differing = written
        .lines()
        .zip(made.lines())
        .find(|(written, made)| written != made);
    assert_eq!(differing, None, "written, made");
    assert_eq!(written.lines().count(), made.lines().count());
}

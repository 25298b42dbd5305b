//! Checks D scripts given by name: prints what is wrong, and how many parse and check.
//!
//! `cargo run -p dwell-script --example check -- [--show] [-x option] SCRIPT.d ...`

use dwell_script::{Bare, Input, Macros, Options, Tag, compile};

fn main() {
    let (mut parsed, mut checked, mut total, mut show) = (0, 0, 0, false);
    let mut options = Options::default();
    let mut names = std::env::args().skip(1);
    while let Some(name) = names.next() {
        match name.as_str() {
            "--show" => show = true,
            "-x" => {
                let option = names.next().unwrap_or_default();
                let (name, value) = option.split_once('=').unwrap_or((&option, ""));
                let value = (!value.is_empty()).then_some(value);
                if let Err(error) = options.set(name, value) {
                    eprintln!("{name}: {error}");
                }
            }
            file => {
                total += 1;
                let tag = check(file, options.clone(), show);
                checked += usize::from(tag.is_none());
                let syntax = matches!(
                    tag,
                    Some(Tag::Syntax | Tag::PragctlInval | Tag::StrNl | Tag::PdescInval)
                );
                parsed += usize::from(!syntax);
            }
        }
    }
    println!("{total} scripts, {parsed} parse, {checked} check");
}

/// The tag of the script's error, if it has one.
fn check(file: &str, options: Options, show: bool) -> Option<Tag> {
    let source = match std::fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            eprintln!("{file}: {error}");
            return Some(Tag::Syntax);
        }
    };
    let input = Input {
        source: &source,
        macros: Macros {
            arguments: vec![file, "1", "1"],
            variables: [
                "target", "pid", "ppid", "uid", "gid", "euid", "egid", "sid", "pgid",
            ]
            .map(|name| (name, 1))
            .to_vec(),
        },
        options,
        ..Input::default()
    };
    match compile(&input, &Bare) {
        Ok((script, _)) => {
            if show {
                print!("{script}");
            }
            None
        }
        Err(error) => {
            println!("{file}: {error}\n{}", error.excerpt());
            Some(error.tag)
        }
    }
}

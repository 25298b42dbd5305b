//! The text of the script: what was typed and what files hold.
use super::arguments::TraceArgs;
use anyhow::Context;
use dwell_script::Specifier;
use dwell_script::octets::{bytes_of, text_of};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A part of the script.
pub struct Source {
    /// For messages about what is wrong with it.
    pub failed: String,
    /// For messages: `description 'BEGIN'`, `script 'x.d'`.
    pub name: String,
    /// The text.
    pub text: String,
    /// What a description of one word is.
    pub specifier: Specifier,
    /// The name of the file, or of ourselves: `$0`.
    pub zeroth: String,
}

/// Everything that was given.
pub fn read(args: &TraceArgs, program: &str) -> anyhow::Result<Vec<Source>> {
    let described = [
        (&args.providers, Specifier::Provider),
        (&args.modules, Specifier::Module),
        (&args.functions, Specifier::Function),
        (&args.names, Specifier::Name),
    ];
    let mut sources = Vec::new();
    for (texts, specifier) in described {
        for text in texts {
            sources.push(Source {
                failed: format!("invalid probe specifier {text}"),
                name: format!("description '{}'", first_word(text)),
                text: preprocessed(args, text)?,
                specifier,
                zeroth: program.to_owned(),
            });
        }
    }
    for path in &args.scripts {
        let text = read_file(path)?;
        sources.push(Source {
            failed: format!("failed to compile script {}", path.display()),
            name: format!("script '{}'", path.display()),
            text: preprocessed(args, &text)?,
            specifier: Specifier::Name,
            zeroth: path.display().to_string(),
        });
    }
    if sources.is_empty() && args.list {
        sources.extend(everything(args).map(|text| Source {
            failed: text.clone(),
            name: format!("description '{text}'"),
            text,
            specifier: Specifier::Name,
            zeroth: program.to_owned(),
        }));
    }
    Ok(sources)
}

/// What `-l` alone lists: of a program all that it has, else what the machine has.
fn everything(args: &TraceArgs) -> impl Iterator<Item = String> {
    let all: &[&str] = match args.has_target() {
        true => &["pid$target:::", "*$target:::"],
        false => &["dtrace:::", "syscall:::", "sdt:::"],
    };
    all.iter().map(|text| (*text).to_owned())
}

fn read_file(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_end(&mut bytes).map(drop),
        _ => std::fs::read(path).map(|all| bytes = all),
    };
    read.with_context(|| format!("failed to open {}", path.display()))?;
    Ok(text_of(&bytes))
}

/// The probes of a description, without what follows them.
fn first_word(text: &str) -> &str {
    text.split(['{', '/']).next().unwrap_or_default().trim()
}

/// By `-x cpp`, or a pragma.
fn asks_for_preprocessor(args: &TraceArgs, text: &str) -> bool {
    let words = |line: &str| {
        line.split_whitespace()
            .eq(["#pragma", "D", "option", "cpp"])
    };
    args.options.iter().any(|option| option == "cpp") || text.lines().any(words)
}

/// As dtrace calls it, and by its lines' true names.
const PREPROCESSOR: [&str; 7] = [
    "-D__linux",
    "-D__unix",
    "-D__SVR4",
    "-D__SUNW_D=1",
    "-D__SUNW_D_VERSION=0x02000000",
    "-U__GNUC__",
    "-D__amd64",
];

/// What `-x define=` and the like are to the preprocessor.
fn for_preprocessor(option: &str) -> Option<String> {
    let (name, value) = option.split_once('=')?;
    let letter = match name {
        "define" => 'D',
        "undef" => 'U',
        "incdir" => 'I',
        _ => return None,
    };
    Some(format!("-{letter}{value}"))
}

fn preprocessed(args: &TraceArgs, text: &str) -> anyhow::Result<String> {
    if !args.preprocess && !asks_for_preprocessor(args, text) {
        return Ok(text.to_owned());
    }
    let mut command = Command::new("cpp");
    command.args(PREPROCESSOR);
    command.args(args.defines.iter().map(|define| format!("-D{define}")));
    command.args(args.undefined.iter().map(|name| format!("-U{name}")));
    command.args(
        args.includes
            .iter()
            .map(|folder| format!("-I{}", folder.display())),
    );
    command.args(
        args.options
            .iter()
            .filter_map(|option| for_preprocessor(option)),
    );
    command
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run the preprocessor cpp")?;
    let text = bytes_of(text);
    let mut stdin = child.stdin.take().expect("it was asked for");
    let writer = std::thread::spawn(move || stdin.write_all(&text));
    let output = child.wait_with_output().context("reading from cpp")?;
    let _ = writer.join();
    anyhow::ensure!(
        output.status.success(),
        "the preprocessor refused the script"
    );
    Ok(text_of(&output.stdout))
}

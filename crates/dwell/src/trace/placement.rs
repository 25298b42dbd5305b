//! Says which probes are where, and why.
use dwell_script::schema::ProbeName;
use dwell_trace::{Engine, Session};
use std::collections::BTreeMap;

/// Probes that are named for one reason, unless all are wanted.
const NAMED: usize = 4;

/// What a person is told about where probes are: of those that are nowhere always, else if it is asked for.
pub fn told(session: &Session<'_>, verbose: bool) -> Vec<String> {
    let not_inside: Vec<(&ProbeName, &str)> = session.not_inside().collect();
    let (all, apart) = (session.probes().count(), not_inside.len());
    let mut lines = Vec::new();
    match (session.leaves_out(), session.engine()) {
        (true, _) if apart > 0 => lines.push(format!(
            "{apart} of {all} probes are left out, since they cannot be inside the process \
             (without --engine they are in the kernel)"
        )),
        (_, Engine::Auto) if verbose => {
            let inside = all - apart;
            lines.push(format!(
                "{inside} probes are inside the process, {apart} in the kernel"
            ));
        }
        (false, Engine::Kernel) if verbose && apart > 0 => {
            lines.push("all probes are in the kernel".to_owned());
        }
        (_, Engine::Process) if verbose => {
            lines.push("all probes are inside the process".to_owned());
        }
        _ => {}
    }
    if !lines.is_empty() {
        lines.extend(reasons(&not_inside, verbose));
    }
    lines
}

/// A line for each reason.
fn reasons(not_inside: &[(&ProbeName, &str)], verbose: bool) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, why) in not_inside {
        by_reason.entry(why).or_default().push(short(name));
    }
    let line = |(why, names): (&str, Vec<String>)| {
        let named = if verbose { names.len() } else { NAMED };
        let more = match names.len().saturating_sub(named) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = names[..named.min(names.len())].join(", ");
        format!("  {why}: {shown}{more}")
    };
    by_reason.into_iter().map(line).collect()
}

fn short(name: &ProbeName) -> String {
    match (&*name.module, &*name.function) {
        ("", "") => name.name.to_string(),
        (module, function) => format!("{module}:{function}:{}", name.name),
    }
}

/// `-l`; with `-v` also where each probe would be.
pub fn list(session: &Session<'_>, verbose: bool) {
    println!(
        "{:>5} {:>10} {:>17} {:>33} NAME",
        "ID", "PROVIDER", "MODULE", "FUNCTION"
    );
    let not_inside: BTreeMap<ProbeKey<'_>, &str> =
        session.not_inside().map(|(n, why)| (key(n), why)).collect();
    for (number, name, _) in session.probes() {
        let ProbeName {
            provider,
            module,
            function,
            name: last,
        } = name;
        println!("{number:>5} {provider:>10} {module:>17} {function:>33} {last}");
        if !verbose {
            continue;
        }
        match (not_inside.get(&key(name)), session.engine()) {
            (Some(why), _) if session.leaves_out() => println!("\tleft out: {why}"),
            (Some(why), _) => println!("\tin the kernel: {why}"),
            (None, Engine::Kernel) => println!("\tin the kernel"),
            (None, _) => println!("\tinside the process"),
        }
    }
}

type ProbeKey<'n> = (&'n str, &'n str, &'n str, &'n str);

fn key(name: &ProbeName) -> ProbeKey<'_> {
    (&name.provider, &name.module, &name.function, &name.name)
}

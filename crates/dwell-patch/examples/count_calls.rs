//! Counts the calls of functions of a running process, and lets go of it:
//!
//! ```text
//! count_calls PID SECONDS [--call] [--returns] [FILE:]FUNCTION…
//! ```
use dwell_patch::plan::Place;
use dwell_patch::process::FunctionAt;
use dwell_patch::{Attachment, Hook, Probe};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let before = arguments.len();
        arguments.retain(|a| a != name);
        arguments.len() != before
    };
    let hook = if flag("--call") {
        Hook::Call(dwell_agent::COUNT_OFFSET)
    } else {
        Hook::Count
    };
    let place = if flag("--returns") {
        Place::Returns
    } else {
        Place::Entry
    };
    let [pid, seconds, functions @ ..] = &arguments[..] else {
        return Err("count_calls PID SECONDS [--call] [--returns] [FILE:]FUNCTION…".into());
    };
    let probes: Vec<Probe> = functions
        .iter()
        .map(|function| {
            let (file, name) = function.split_once(':').unwrap_or(("", function));
            let function = FunctionAt::Name(name.to_owned());
            Probe {
                file: file.to_owned(),
                function,
                place,
                hook,
            }
        })
        .collect();
    let attachment = Attachment::new(pid.parse()?, &probes)?;
    println!(
        "attached: {:?}, owned: {}",
        attachment.pause(),
        attachment.is_owned()
    );
    std::thread::sleep(Duration::from_secs_f64(seconds.parse()?));
    let counts = attachment.counts();
    for (index, spot) in attachment.spots().iter().enumerate() {
        let name = &functions[spot.probe];
        match (&spot.refusal, &counts) {
            (Some(refusal), _) => println!("{name:>30} refused: {refusal}"),
            (None, Some(counts)) => println!("{name:>30} {:>12} {}", counts[index], spot.path),
            (None, None) => println!("{name:>30} the process has ended"),
        }
    }
    println!("detached: {:?}", attachment.detach()?);
    Ok(())
}

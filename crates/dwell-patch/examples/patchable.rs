//! Tells how many functions of files can be patched at their entry and at their returns, and why not
//! the others:
//!
//! ```text
//! patchable FILE…
//! ```
use dwell_patch::plan::{self, Image, Place, Request};
use std::collections::BTreeMap;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let data = std::fs::read(&path)?;
        let image = Image::parse(&data)?;
        for place in [Place::Entry, Place::Returns, Place::Rets] {
            let mut functions: Vec<u64> = image.symbols().map(|s| s.address).collect();
            functions.sort_unstable();
            functions.dedup();
            let requests: Vec<Request> = functions
                .iter()
                .map(|&function| Request { function, place })
                .collect();
            let begin = Instant::now();
            let plan = plan::plan(&image, &requests);
            let took = begin.elapsed();
            let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
            for (_, refusal) in &plan.refused {
                *reasons.entry(refusal.to_string()).or_default() += 1;
            }
            let possible = requests.len() - plan.refused.len();
            let share = 100.0 * possible as f64 / requests.len().max(1) as f64;
            println!(
                "{path} {place:?}: {possible} of {} ({share:.1} %) in {took:.1?}",
                requests.len()
            );
            for (reason, count) in reasons {
                println!("{count:>8} {reason}");
            }
        }
    }
    Ok(())
}

//! How much of real files can be patched: at least 97 of 100 entries, and 90 of 100 `ret`s. What cannot be is printed
//! by reason.
use dwell_patch::plan::{self, Image, Place, Request};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::collections::BTreeMap;
use std::path::Path;

/// Where distributions have a shared library.
fn library(name: &str) -> Option<String> {
    let folders = ["/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let paths = folders.map(|folder| format!("{folder}/{name}"));
    paths.into_iter().find(|path| Path::new(path).exists())
}

/// Starts of the functions that have a name.
fn functions(image: &Image<'_>) -> Vec<u64> {
    let mut functions: Vec<u64> = image.symbols().map(|s| s.address).collect();
    functions.sort_unstable();
    functions.dedup();
    functions
}

/// Every `ret` of those.
fn rets(image: &Image<'_>) -> Vec<Request> {
    let mut found = Vec::new();
    for start in functions(image) {
        let Ok(function) = image.function(start) else {
            continue;
        };
        let len = (function.end - function.start) as usize;
        let bytes = image.file().bytes_at(start, len).expect("code");
        let decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let rets = decoder
            .into_iter()
            .filter(|i| i.flow_control() == FlowControl::Return);
        found.extend(rets.map(|i| Request {
            function: start,
            place: Place::Offset((i.ip() - start) as u32),
        }));
    }
    found
}

/// Percent of the requests that can be met.
fn share(path: &str, what: &str, image: &Image<'_>, requests: &[Request]) -> f64 {
    let plan = plan::plan(image, requests);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (_, refusal) in &plan.refused {
        *reasons.entry(refusal.to_string()).or_default() += 1;
    }
    let met = requests.len() - plan.refused.len();
    let share = 100.0 * met as f64 / requests.len() as f64;
    println!(
        "{path}: {met} of {} {what} ({share:.1} %), not {reasons:#?}",
        requests.len()
    );
    share
}

#[test]
fn nearly_all_entries_and_rets_of_real_files_can_be_patched() {
    let libraries = ["libc.so.6", "libstdc++.so.6"]
        .into_iter()
        .filter_map(library);
    let mut seen = 0;
    for path in libraries.chain(["/bin/bash".to_owned()]) {
        let Ok(data) = std::fs::read(&path) else {
            continue;
        };
        let image = Image::parse(&data).expect("an ELF file");
        let entries = functions(&image).into_iter().map(|function| Request {
            function,
            place: Place::Entry,
        });
        let entries: Vec<Request> = entries.collect();
        assert!(share(&path, "entries", &image, &entries) >= 97.0, "{path}");
        assert!(
            share(&path, "rets", &image, &rets(&image)) >= 90.0,
            "{path}"
        );
        seen += entries.len();
    }
    assert!(seen > 1000, "{seen} functions");
}

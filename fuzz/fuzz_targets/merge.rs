//! Any bytes as a program and as the library that it needs: merged, or refused; what is given out has
//! stood its own examination. The last byte tells the level, and whether
//! the C library is merged, and the loader; the four before it where the library begins.
#![no_main]

use dwell_booster::{Inputs, LoaderCache, Options, Processor, build, collect, plan, question};
use libfuzzer_sys::fuzz_target;

/// Libraries that are found: a hostile file may need thousands.
const MOST: usize = 4;

fn inputs(data: &[u8]) -> Option<Inputs> {
    let (files, split) = data.split_last_chunk::<4>()?;
    let split = u32::from_le_bytes(*split) as usize;
    let (program, library) = files.split_at_checked(split)?;
    let mut given = 0;
    let load = |_: &str| {
        given += 1;
        (given <= MOST).then(|| library.to_vec())
    };
    Some(collect("/bin/program", program.to_vec(), &LoaderCache::default(), load))
}

fuzz_target!(|data: &[u8]| {
    let Some((&level, data)) = data.split_last() else {
        return;
    };
    let Some(inputs) = inputs(data) else {
        return;
    };
    let options = Options {
        direct: level & 1 != 0,
        libc: level & 2 != 0,
        fixed: (level & 4 != 0).then_some(0x5555_5555_4000),
        processor: (level & 8 != 0).then(|| Processor::ask(|leaf, part| [leaf | 0x10, part, leaf, part], 7)),
        ..Options::default()
    };
    if let Ok(Some(question)) = question(&inputs, &options) {
        let _ = question.choices(data);
    }
    let planned = plan(&inputs, &options);
    let Ok(built) = build(&inputs, &options) else {
        return;
    };
    let plan = planned.expect("what can be built can be planned");
    let merged = plan.libraries.iter().filter(|l| l.merged);
    assert!(merged.map(|l| &l.name).eq(&built.merged));
});

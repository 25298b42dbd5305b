//! Damaged files are refused or merged, never a reason to panic: a small program and its library with some
//! bytes changed where tables are, thousands of times. The dice are always the same.
mod common;

use common::{Folder, at_level, at_one_address, compile, with_libc, with_loader};
use dwell_booster::{Inputs, LoaderCache, build, collect, plan, question};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs;

const ROUNDS: u64 = 2000;

/// Changes some words; half of them to what limits are made of.
fn damage(dice: &mut Rng, bytes: &mut [u8]) {
    const ODD: [u64; 8] = [0, 1, 7, 0x1000, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX];
    for _ in 0..=dice.usize(..4) {
        let width = [1, 2, 4, 8][dice.usize(..4)];
        let at = dice.usize(..bytes.len() - 8) / width * width;
        let value = match dice.bool() {
            true => ODD[dice.usize(..ODD.len())],
            false => dice.u64(..),
        };
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

/// Where a file's headers and tables are: what comes before its code, and what comes behind it.
fn tables(bytes: &[u8]) -> [std::ops::Range<usize>; 2] {
    let page = 4096;
    [
        0..page.min(bytes.len()),
        bytes.len().saturating_sub(4 * page)..bytes.len(),
    ]
}

fn inputs(program: &[u8], library: &[u8]) -> Inputs {
    collect(
        "/bin/prog",
        program.to_vec(),
        &LoaderCache::default(),
        |path| match path.rsplit('/').next() {
            Some("libv.so") => Some(library.to_vec()),
            Some("libc.so.6" | "ld-linux-x86-64.so.2") => fs::read(path).ok(),
            _ => None,
        },
    )
}

#[test]
fn damaged_files_are_refused_or_merged() {
    let folder = Folder::new("hostile");
    let library = "_Thread_local int t = 1; static int z; int *p = &z; static int f(void) { return 1; }\n\
        static int (*r(void))(void) { return f; }\nint i(void) __attribute__((ifunc(\"r\")));\n\
        __attribute__((constructor)) static void up(void) { z++; } int v(void) { return t++ + i(); }\n";
    fs::write(folder.file("v.c"), library).expect("written");
    fs::write(
        folder.file("prog.c"),
        "extern int *p; int v(void); int main(void) { return v() + *p; }",
    )
    .expect("written");
    compile(
        &folder,
        "gcc -O1 -fPIC -shared -Wl,-z,pack-relative-relocs -o libv.so v.c",
    );
    compile(&folder, "gcc -O1 -fno-pic -no-pie -o prog prog.c -L. -lv");
    let read = |name: &str| fs::read(folder.file(name)).expect("compiled");
    compile(&folder, "gcc -O1 -o pie prog.c -L. -lv");
    let (programs, library) = ([read("prog"), read("pie")], read("libv.so"));
    let ways = [at_level(false), at_level(true), at_one_address(false)];
    for (program, way) in programs
        .iter()
        .flat_map(|p| ways.iter().map(move |w| (p, w)))
    {
        build(&inputs(program, &library), way).expect("whole files can be merged");
    }
    let mut dice = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let (mut program, mut library) = (programs[dice.usize(..2)].clone(), library.clone());
        let file = if dice.bool() {
            &mut program
        } else {
            &mut library
        };
        let part = tables(file)[dice.usize(..2)].clone();
        damage(&mut dice, &mut file[part]);
        let inputs = inputs(&program, &library);
        let options = match dice.u8(..64) {
            0 => with_libc(),
            1 => with_loader(),
            number => ways[usize::from(number) % ways.len()].clone(),
        };
        let _ = plan(&inputs, &options);
        let _ = question(&inputs, &options);
        let end = match build(&inputs, &options) {
            Ok(_) => "merged",
            Err(refusal) => refusal.kind(),
        };
        *ends.entry(end).or_default() += 1;
    }
    println!("{ends:?}");
    assert!(
        ends.len() > 5 && ends["merged"] > 0 && ends["damaged"] > 0,
        "{ends:?}"
    );
}

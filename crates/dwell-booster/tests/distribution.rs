//! The distribution's own programs: merged, they print the same and end the same way; and every file
//! of its program folders gets a verdict.
mod common;

use common::{Folder, at_level, at_one_address, inputs, merge_with, same, with_libc, with_loader};
use dwell_booster::{Options, Refusal, plan};
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PYTHON: &str = "import sys, zlib, json, math, hashlib, ctypes, decimal, threading\n\
    t = threading.Thread(target=lambda: print(zlib.crc32(b'dwell'), math.sin(1)))\n\
    t.start(); t.join()\n\
    print(json.dumps({'a': [1, 2.5]}), hashlib.sha256(b'x').hexdigest())\n\
    print(decimal.Decimal(1) / 7, ctypes.CDLL('libc.so.6').abs(-5))\n\
    sys.exit(7)";

/// Program and arguments whose output is the same in every run. Those that are not installed are left
/// out, but three at least must be there.
const RUNS: &[(&str, &[&str])] = &[
    (
        "/usr/bin/bash",
        &[
            "-c",
            "echo $((6*7)); x=(a b); echo ${x[@]^^}; ls / | wc -l; exit 3",
        ],
    ),
    ("/usr/bin/ls", &["-l", "--color=always", "/usr"]),
    ("/usr/bin/grep", &["-P", "-n", "ro+t", "/etc/passwd"]),
    (
        "/usr/bin/perl",
        &[
            "-MList::Util=sum",
            "-MPOSIX",
            "-e",
            "print sum(1..100), strftime('%Y', gmtime(0)); exit 4",
        ],
    ),
    ("/usr/bin/python3.11", &["-IS", "-c", PYTHON]),
    ("/usr/bin/git", &["--version", "--build-options"]),
    ("/usr/bin/git", &["help", "-a"]),
    ("/usr/bin/curl", &["-sV"]),
    ("/usr/bin/curl", &["-s", "file:///etc/passwd"]),
    ("/usr/bin/wget", &["--version"]),
    (
        "/usr/bin/sqlite3",
        &[
            ":memory:",
            "with recursive t(i) as (select 1 union all select i+1 from t where i<999) select sum(i), sqrt(2) from t",
        ],
    ),
    ("/usr/bin/redis-server", &["--version"]),
    ("/usr/sbin/nginx", &["-V"]),
    (
        "/usr/bin/gdb",
        &[
            "-nx",
            "-batch",
            "-ex",
            "print 6*7",
            "-ex",
            "python print(1+1)",
        ],
    ),
    ("/usr/bin/openssl", &["dgst", "-sha256", "/etc/passwd"]),
    ("/usr/bin/xz", &["--version"]),
    // Linked for a glibc before 2.34, whose programs call their constructors themselves.
    (
        "/usr/bin/mawk",
        &["BEGIN { for (i = 0; i < 9; i++) s = s \"x\" i; print s, sin(1); exit 5 }"],
    ),
    (
        "/usr/bin/make",
        &["-s", "--eval", "a: ; @echo hi; exit 3", "a"],
    ),
    ("/usr/bin/gzip", &["-cn", "/etc/passwd"]),
    (
        "/usr/bin/clang-19",
        &["-O2", "-S", "-x", "c", "-o", "-", "/dev/null"],
    ),
    // Its code is in three ranges.
    (
        "/usr/bin/node",
        &[
            "-e",
            "console.log([1, 2, 3].map(x => x ** 0.5)); process.exit(7)",
        ],
    ),
    ("/usr/bin/c++filt", &["_ZNSt6vectorIiSaIiEE9push_backEOi"]),
];

/// valgrind does not read a file with a second `.rodata`: then it finds no function of libc's to stand in for.
fn sections_have_names_of_their_own(merged: &Path) {
    let bytes = fs::read(merged).expect("the merged program");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let mut names = BTreeSet::new();
    for section in file.sections() {
        let name = section.name().expect("a name").to_owned();
        assert!(names.insert(name.clone()), "two sections are called {name}");
    }
    assert!(names.contains(".text"));
}

fn same_when_merged(way: &Options, name: &str) {
    let mut done = 0;
    for (program, args) in RUNS {
        let program = Path::new(program);
        if !program.exists() {
            continue;
        }
        let folder = Folder::new(name);
        match merge_with(&folder, program, way) {
            Ok((merged, built)) => {
                if let Some(direct) = built.direct {
                    println!("{}: {direct:?}", program.display());
                }
                sections_have_names_of_their_own(&merged);
                let output = same(program, &merged, args);
                let all = output.stdout.len() + output.stderr.len();
                assert!(
                    all > 0,
                    "{}: a run that prints nothing tells nothing",
                    program.display()
                );
                done += 1;
            }
            Err(Refusal::Nothing { .. }) => {}
            Err(why @ Refusal::Unsupported { .. }) if way.libc => println!("{why}"),
            Err(why) => panic!("{}: {why}", program.display()),
        }
    }
    assert!(done >= 3, "only {done} programs could be tried");
}

#[test]
fn programs_do_the_same_when_merged() {
    same_when_merged(&at_level(false), "same");
}

#[test]
fn programs_do_the_same_with_direct_calls() {
    same_when_merged(&at_level(true), "direct");
}

#[test]
fn programs_do_the_same_with_the_c_library() {
    same_when_merged(&with_libc(), "libc");
}

#[test]
fn programs_do_the_same_at_one_address() {
    same_when_merged(&at_one_address(true), "fixed");
    same_when_merged(&at_one_address(false), "fixed-nolibc");
}

#[test]
fn programs_do_the_same_with_the_loader_in_them() {
    same_when_merged(&with_loader(), "loader");
}

/// What `ldd` says: the loader's own search. Library and path.
fn ldd(program: &Path) -> BTreeMap<String, PathBuf> {
    let output = Command::new("ldd").arg(program).output().expect("ldd runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|l| {
        let (name, rest) = l.trim().split_once(" => ")?;
        let path = rest.split(" (").next()?;
        Some((name.to_owned(), fs::canonicalize(path).ok()?))
    });
    lines.collect()
}

/// Every file of the folders: a plan, or a refusal by name; never a panic. The libraries found are
/// those that the loader itself finds.
#[test]
fn every_program_gets_a_verdict() {
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut compared = 0;
    for folder in ["/usr/bin", "/usr/sbin"] {
        for entry in fs::read_dir(folder)
            .expect("a folder of programs")
            .flatten()
        {
            let Ok(path) = fs::canonicalize(entry.path()) else {
                continue;
            };
            let size = fs::metadata(&path).map_or(0, |m| m.len());
            if !path.is_file() || size > 20 << 20 || !seen.insert(path.clone()) {
                continue;
            }
            let files = inputs(&path);
            let verdict = match plan(&files, &Options::default()) {
                Ok(plan) => {
                    if compared < 100 {
                        compared += 1;
                        let found = plan
                            .libraries
                            .iter()
                            .filter(|l| !l.name.starts_with("ld-linux"));
                        let real = |p: &str| fs::canonicalize(p).expect("a file that was read");
                        let found = found.map(|l| (l.name.clone(), real(&l.path)));
                        assert_eq!(
                            found.collect::<BTreeMap<_, _>>(),
                            ldd(&path),
                            "{}",
                            path.display()
                        );
                    }
                    "merged"
                }
                Err(refusal) => refusal.kind(),
            };
            *verdicts.entry(verdict).or_default() += 1;
        }
    }
    println!("{verdicts:?}");
    assert!(
        !verdicts.contains_key("check") && !verdicts.contains_key("damaged"),
        "{verdicts:?}"
    );
    assert!(verdicts["merged"] >= 10, "{verdicts:?}");
}

/// Relocation counts are those that `readelf -r` prints.
#[test]
fn relocations_are_counted_as_readelf_counts_them() {
    let program = Path::new("/usr/bin/bash");
    let plan = plan(&inputs(program), &Options::default()).expect("bash can be merged");
    let mut files = vec![program.to_path_buf()];
    files.extend(
        plan.libraries
            .iter()
            .filter(|l| l.merged)
            .map(|l| PathBuf::from(&l.path)),
    );
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let output = Command::new("readelf")
            .arg("-rW")
            .arg(&file)
            .output()
            .expect("readelf runs");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let kind = line
                .split_whitespace()
                .find_map(|w| w.strip_prefix("R_X86_64_"));
            if let Some(kind) = kind {
                // readelf cuts long names.
                *counts
                    .entry(kind.replace("JUMP_SLO", "JUMP_SLOT").replace("TT", "T"))
                    .or_default() += 1;
            }
        }
    }
    let ours = plan.relocations.iter().map(|r| (r.kind.clone(), r.count));
    assert_eq!(ours.collect::<BTreeMap<_, _>>(), counts);
}

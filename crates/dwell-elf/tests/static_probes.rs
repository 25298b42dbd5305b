//! Static probes of `dwell/sdt.h` and of systemtap's `sys/sdt.h`: the notes as `readelf` prints them,
//! the arguments as the program itself and gdb tell them.
mod common;

use common::probed::{self, Reached};
use common::programs;
use dwell_elf::ElfFile;
use dwell_elf::static_probes::{ArgumentKind, Place, StaticProbe, StaticProbes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A way to compile `shapes.c`.
#[derive(Clone, Copy)]
struct Build {
    compiler: &'static str,
    flags: &'static [&'static str],
}

const STRICT: &[&str] = &["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// Compilers × languages × levels × ways to link; each level and way meets each compiler.
const DWELL: [Build; 16] = [
    build("gcc", &["-std=c99", "-O0"]),
    build("gcc", &["-std=gnu17", "-O1", "-no-pie", "-fno-pie"]),
    build("gcc", &["-std=c11", "-O2"]),
    build("gcc", &["-std=gnu99", "-O3", "-static"]),
    build("gcc", &["-O2", "-flto"]),
    build("gcc", &["-O0", "-fsanitize=address,undefined"]),
    build("g++", &["-x", "c++", "-std=c++11", "-O0"]),
    build(
        "g++",
        &[
            "-x",
            "c++",
            "-std=c++20",
            "-O2",
            "-Wl,--gc-sections",
            "-ffunction-sections",
        ],
    ),
    build(
        "g++",
        &["-x", "c++", "-std=c++17", "-O3", "-no-pie", "-fno-pie"],
    ),
    build("clang", &["-std=c99", "-O0"]),
    build("clang", &["-std=gnu17", "-O1", "-no-pie", "-fno-pie"]),
    build("clang", &["-std=c11", "-O2"]),
    build("clang", &["-std=gnu99", "-O3", "-static"]),
    build("clang++", &["-x", "c++", "-std=c++11", "-O0"]),
    build("clang++", &["-x", "c++", "-std=c++20", "-O2"]),
    build(
        "clang++",
        &["-x", "c++", "-std=c++17", "-O3", "-no-pie", "-fno-pie"],
    ),
];

const SYSTEMTAP: [Build; 9] = [
    build("gcc", &["-DSYSTEMTAP", "-O0"]),
    build("gcc", &["-DSYSTEMTAP", "-O1", "-no-pie", "-fno-pie"]),
    build("gcc", &["-DSYSTEMTAP", "-O2"]),
    build("gcc", &["-DSYSTEMTAP", "-O2", "-DVECTORS"]),
    build("gcc", &["-DSYSTEMTAP", "-O3"]),
    build("g++", &["-DSYSTEMTAP", "-x", "c++", "-O2"]),
    build("clang", &["-DSYSTEMTAP", "-O0"]),
    build("clang", &["-DSYSTEMTAP", "-O2", "-no-pie", "-fno-pie"]),
    build("clang++", &["-DSYSTEMTAP", "-x", "c++", "-O2"]),
];

const fn build(compiler: &'static str, flags: &'static [&'static str]) -> Build {
    Build { compiler, flags }
}

impl Build {
    /// The program, none when its compiler is not installed.
    fn make(&self) -> Option<PathBuf> {
        let compiler = installed_compiler(self.compiler)?;
        let name = format!("shapes-{}{}", self.compiler, self.flags.concat());
        let name: String = name.chars().filter(|c| !"=,/+ ".contains(*c)).collect();
        let include = format!("-I{}", include().display());
        let mut flags = vec!["-g", include.as_str()];
        flags.extend_from_slice(self.flags);
        if !self.flags.contains(&"-DSYSTEMTAP") {
            flags.extend_from_slice(STRICT);
        }
        Some(programs::compile(&compiler, "shapes.c", &name, &flags))
    }
}

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

/// gcc always; clang under the name it has here.
fn installed_compiler(name: &str) -> Option<String> {
    if name.starts_with('g') {
        return Some(name.to_owned());
    }
    let versions = (14..=21).rev().map(|version| format!("{name}-{version}"));
    let found = versions
        .chain([name.to_owned()])
        .find(|tool| programs::has(tool));
    if found.is_none() {
        eprintln!("{name} is not installed, left out");
    }
    found
}

fn has_systemtap() -> bool {
    let installed = Path::new("/usr/include/x86_64-linux-gnu/sys/sdt.h").exists()
        || Path::new("/usr/include/sys/sdt.h").exists();
    if !installed {
        eprintln!("sys/sdt.h (systemtap-sdt-dev) is not installed, left out");
    }
    installed
}

fn probes_of(path: &Path) -> (Vec<u8>, StaticProbes) {
    let data = std::fs::read(path).expect("the program");
    let found = ElfFile::parse(&data).expect("an ELF file").static_probes();
    (data, found)
}

/// What the program said about its probes: a name and values per line.
fn truth(printed: &str) -> Vec<(String, Vec<u64>)> {
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let name = words.next().expect("a name");
        let hex = |word: String| u64::from_str_radix(&word, 16).expect("a number");
        (name, words.map(hex).collect())
    };
    printed.lines().map(line).collect()
}

/// Compares what was read at the probes with what the program says. Returns the arguments that could
/// not be read, by probe.
fn compare(build: &Path, reached: &[Reached], printed: &str) -> BTreeMap<String, usize> {
    let truth = truth(printed);
    let told: Vec<&Reached> = reached.iter().filter(|r| r.name != "settled").collect();
    let names = |r: &[&Reached]| r.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        names(&told),
        truth.iter().map(|t| t.0.clone()).collect::<Vec<_>>(),
        "{}",
        build.display()
    );
    let mut unread = BTreeMap::new();
    for (reached, (name, values)) in told.iter().zip(&truth) {
        assert_eq!(
            reached.values.len(),
            values.len(),
            "{}: {name}",
            build.display()
        );
        for (k, (&read, &value)) in reached.values.iter().zip(values).enumerate() {
            match read {
                Some(read) => assert_eq!(read, value, "{}: {name} arg{k}", build.display()),
                None => *unread.entry(name.clone()).or_default() += 1,
            }
        }
    }
    unread
}

#[test]
fn arguments_of_dwell_probes_are_what_the_program_says() {
    let mut programs = 0;
    for build in DWELL {
        let Some(path) = build.make() else { continue };
        let (data, found) = probes_of(&path);
        assert_eq!(found.skipped, [], "{}", path.display());
        assert!(
            found
                .probes
                .iter()
                .all(|p| p.jump_site == Some(p.address + 1))
        );
        let (reached, printed) = probed::run(&path, &data, &found.probes);
        let unread = compare(&path, &reached, &printed);
        assert_eq!(unread, BTreeMap::new(), "{}", path.display());
        let settled = reached.iter().find(|r| r.name == "settled");
        let word = settled.and_then(|r| r.pointed).expect("the word") & 0xff_ffff;
        assert_eq!(word, 0x6b6f, "{}: {word:x} is not \"ok\"", path.display());
        programs += 1;
    }
    assert!(programs >= 9, "gcc's must all be there");
}

#[test]
fn arguments_of_systemtap_probes_are_what_the_program_says() {
    if !has_systemtap() {
        return;
    }
    let (mut places, mut arguments) = ([0; 6], 0);
    for build in SYSTEMTAP {
        let Some(path) = build.make() else { continue };
        let (data, found) = probes_of(&path);
        assert_eq!(found.skipped, [], "{}", path.display());
        let (reached, printed) = probed::run(&path, &data, &found.probes);
        for (name, count) in compare(&path, &reached, &printed) {
            // A literal in the constant pool has no symbol; a thread's own memory no address.
            let allowed = match name.as_str() {
                "floats" | "thread_local_variable" => 1,
                _ => 0,
            };
            assert!(
                count <= allowed,
                "{}: {name}: {count} unread",
                path.display()
            );
        }
        let read = found.probes.iter().flat_map(|p| &p.arguments).flatten();
        for argument in read {
            arguments += 1;
            places[match argument.place {
                Place::Constant(_) => 0,
                Place::Register(_) | Place::HighByte(_) => 1,
                Place::Vector(_) => 2,
                Place::Memory { index: None, .. } => 3,
                Place::Memory { index: Some(_), .. } => 4,
                Place::Variable { .. } => 5,
            }] += 1;
        }
    }
    // Were a form missing here, the comparison would say nothing about it.
    assert!(places.iter().all(|&n| n > 0), "{places:?} of {arguments}");
}

/// A probe as `readelf -n` prints it.
#[derive(Debug, PartialEq, Eq)]
struct Printed {
    provider: String,
    name: String,
    address: u64,
    semaphore: u64,
    arguments: String,
}

fn readelf(path: &str) -> Vec<Printed> {
    let output = Command::new("readelf")
        .args(["-n", path])
        .output()
        .expect("readelf (binutils) is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut probes = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(provider) = line.strip_prefix("Provider: ") else {
            continue;
        };
        let mut field = |name: &str| {
            let line = lines.next().expect("a field");
            line.strip_prefix(name).expect(name).trim().to_owned()
        };
        let name = field("Name:");
        let numbers = field("Location:");
        let arguments = field("Arguments:");
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hex");
        let mut numbers = numbers
            .split(", ")
            .map(|n| hex(n.rsplit(' ').next().expect("one")));
        probes.push(Printed {
            provider: provider.to_owned(),
            name,
            address: numbers.next().expect("a location"),
            semaphore: numbers.nth(1).expect("a semaphore"),
            arguments,
        });
    }
    probes
}

/// The notes of real programs, and of ours, are those that `readelf -n` prints.
#[test]
fn notes_are_what_readelf_prints() {
    let ours = [DWELL[2], DWELL[7]].map(|build| build.make().expect("gcc"));
    let ours = ours.iter().map(|path| path.to_string_lossy().into_owned());
    let theirs = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/usr/bin/python3",
        "/usr/lib/postgresql/15/bin/postgres",
        "/usr/sbin/mariadbd",
        "/usr/bin/perl",
        "/usr/sbin/qemu-system-x86_64",
    ];
    let mut compared = 0;
    let theirs = theirs.map(str::to_owned).into_iter();
    for path in ours.chain(theirs).filter(|path| Path::new(path).exists()) {
        let data = std::fs::read(&path).expect("a file");
        let found = ElfFile::parse(&data).expect("an ELF file").static_probes();
        assert_eq!(found.skipped, [], "{path}");
        let printed = readelf(&path);
        assert_eq!(found.probes.len(), printed.len(), "{path}");
        for (probe, printed) in found.probes.iter().zip(&printed) {
            check_printed(&path, probe, printed);
        }
        compared += printed.len();
    }
    assert!(compared > 30, "only {compared} probes were compared");
}

fn check_printed(path: &str, probe: &StaticProbe, printed: &Printed) {
    let unreadable: Vec<String> = probe
        .arguments
        .iter()
        .filter_map(|a| a.as_ref().err().map(ToString::to_string))
        .collect();
    let arguments = printed.arguments.split_ascii_whitespace().count();
    assert_eq!(probe.arguments.len(), arguments, "{path}: {printed:?}");
    assert_eq!(
        (&probe.provider, &probe.name, probe.address),
        (&printed.provider, &printed.name, printed.address),
        "{path}"
    );
    assert_eq!(probe.semaphore.unwrap_or(0), printed.semaphore, "{path}");
    // Stripped programs keep their probes; only variables' names are lost.
    for why in unreadable {
        assert!(why.contains("symbol"), "{path}: {}: {why}", probe.name);
    }
}

/// Lets gdb read every argument at every probe, and prints them as the program prints the truth.
const GDB: &str = r#"
import gdb, sys
gdb.execute("set confirm off")
gdb.execute("set print thread-events off")
class Probe(gdb.Breakpoint):
    def __init__(self, name):
        super().__init__("-probe-stap shapes:" + name)
        self.name = name
    def stop(self):
        words = ["GDB", self.name]
        try:
            count = int(gdb.parse_and_eval("$_probe_argc"))
        except gdb.error:
            count = -1
        for k in range(count):
            try:
                value = int(gdb.parse_and_eval("$_probe_arg%d" % k))
                words.append("%x" % (value & 0xffffffffffffffff))
            except gdb.error:
                words.append("-")
        if count >= 0:
            print(" ".join(words))
            sys.stdout.flush()
        return False
"#;

/// gdb's values of a program's probes by name, each in the order they were read; `-` where gdb cannot.
fn gdb(path: &Path, names: &[&str]) -> Vec<(String, Vec<Option<u64>>)> {
    let mut script = GDB.to_owned();
    for name in names {
        script += &format!("Probe({name:?})\n");
    }
    script += "gdb.execute(\"run > /dev/null\")\n";
    let file = path.with_extension("gdb.py");
    std::fs::write(&file, script).expect("write the script");
    let output = Command::new("gdb")
        .args(["-q", "-nx", "-batch", "-x"])
        .args([&file, path])
        .output()
        .expect("gdb is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let values = |words: std::str::Split<'_, char>| {
        words
            .map(|word| u64::from_str_radix(word, 16).ok())
            .collect()
    };
    text.lines()
        .filter_map(|line| line.strip_prefix("GDB "))
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().expect("a name").to_owned();
            (name, values(words))
        })
        .collect()
}

/// gdb sees what we see. Pointers differ from run to run unless the program is at a fixed address,
/// so they are left to the program's own word.
#[test]
fn gdb_reads_the_same_values() {
    if !programs::has("gdb") {
        eprintln!("gdb is not installed, left out");
        return;
    }
    let systemtap = SYSTEMTAP.iter().filter(|_| has_systemtap()).take(3);
    for build in [&DWELL[0], &DWELL[2], &DWELL[11], &DWELL[14]]
        .into_iter()
        .chain(systemtap)
    {
        let Some(path) = build.make() else { continue };
        let (data, found) = probes_of(&path);
        let (reached, _) = probed::run(&path, &data, &found.probes);
        let reached: Vec<&Reached> = reached
            .iter()
            .filter(|r| has_fixed_values(&r.name))
            .collect();
        let mut names: Vec<&str> = reached.iter().map(|r| r.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let theirs = gdb(&path, &names);
        let of_dwell = !build.flags.contains(&"-DSYSTEMTAP");
        let mut compared = 0;
        // gdb gives up on a probe when it cannot parse one of its arguments.
        let ours = reached
            .iter()
            .filter(|ours| theirs.iter().any(|t| t.0 == ours.name));
        for (ours, (name, values)) in ours.zip(&theirs) {
            assert_eq!(&ours.name, name, "{}", path.display());
            for (k, (our, their)) in ours.values.iter().zip(values).enumerate() {
                if let (Some(our), Some(their)) = (our, their) {
                    assert_eq!(our, their, "{}: {name} arg{k}", path.display());
                    compared += 1;
                } else {
                    assert!(
                        !of_dwell,
                        "{}: gdb cannot read {name} arg{k}",
                        path.display()
                    );
                }
            }
        }
        assert!(compared >= 40, "{}: only {compared} values", path.display());
    }
}

fn has_fixed_values(name: &str) -> bool {
    !["pointers", "settled", "templated"].contains(&name)
}

/// Kinds: what sys/sdt.h's notes cannot tell, those of `dwell/sdt.h` do.
#[test]
fn dwell_probes_tell_pointers_and_floats() {
    use ArgumentKind::{Float, Pointer, Signed, Unsigned};
    let path = DWELL[2].make().expect("gcc");
    let (_, found) = probes_of(&path);
    let kinds = |name: &str| -> Vec<(ArgumentKind, u8)> {
        let probe = found.probes.iter().find(|p| p.name == name).expect(name);
        let arguments = probe.arguments.iter().flatten();
        arguments.map(|a| (a.kind, a.size)).collect()
    };
    assert_eq!(
        kinds("floats"),
        [(Float, 8), (Float, 4), (Signed, 4), (Float, 8)]
    );
    assert_eq!(kinds("pointers"), [(Pointer, 8); 4]);
    assert_eq!(
        kinds("integers"),
        [
            (Signed, 1),
            (Unsigned, 1),
            (Signed, 2),
            (Unsigned, 2),
            (Signed, 4),
            (Unsigned, 4),
            (Signed, 8),
            (Unsigned, 8),
        ]
    );
    assert_eq!(
        kinds("enumerations"),
        [(Unsigned, 4), (Signed, 4), (Unsigned, 1)]
    );
    let d_names: Vec<String> = found.probes.iter().map(StaticProbe::d_name).collect();
    assert!(d_names.contains(&"double-underscore".to_owned()));
}

/// Two object files, compiled one by one, and a library, linked to one program.
fn several(flags: &[&str]) -> (PathBuf, PathBuf) {
    let name = format!("several{}", flags.concat());
    let include = format!("-I{}", include().display());
    let part = |part: &str, more: &[&str]| {
        let define = format!("-DPART={part}");
        let mut all = vec![include.as_str(), define.as_str(), "-std=c++11"];
        all.extend_from_slice(flags);
        all.extend_from_slice(more);
        programs::cxx("several.cpp", &format!("lib{name}{part}.so"), &all)
    };
    let library = part("3", &["-shared", "-fPIC", "-fvisibility=hidden"]);
    let second = part("2", &["-c"]).to_string_lossy().into_owned();
    let library_path = library.to_string_lossy().into_owned();
    let first = part(
        "1",
        &[
            "-Wl,--no-as-needed",
            "-x",
            "none",
            &second,
            &library_path,
            "-x",
            "c++",
        ],
    );
    (first, library)
}

fn named<'a>(probes: &'a StaticProbes, name: &str) -> Vec<&'a StaticProbe> {
    probes.probes.iter().filter(|p| p.name == name).collect()
}

#[test]
fn one_semaphore_per_program_and_library_where_it_is_asked_for() {
    for flags in [
        &["-O0"][..],
        &["-O2"],
        &["-O2", "-Wl,--gc-sections", "-ffunction-sections"],
    ] {
        let (program, library) = several(flags);
        for path in [&program, &library] {
            let (data, found) = probes_of(path);
            let file = ElfFile::parse(&data).expect("an ELF file");
            assert_eq!(found.skipped, [], "{}", path.display());
            let section = file.section(".probes").expect("semaphores are in .probes");
            let counts = section.stated_address()..section.stated_address() + section.size();
            for name in ["generic", "member"] {
                let mut semaphores: Vec<_> =
                    named(&found, name).iter().map(|p| p.semaphore).collect();
                assert!(semaphores.len() >= 2 || path == &library && name == "member");
                semaphores.dedup();
                assert_eq!(semaphores.len(), 1, "{}: {name}", path.display());
                assert!(semaphores[0].is_some_and(|s| s % 2 == 0 && counts.contains(&s)));
            }
            assert!(
                named(&found, "never_asked")
                    .iter()
                    .all(|p| p.semaphore.is_none())
            );
            // The linker keeps one copy of an inline function, and one note.
            assert_eq!(named(&found, "in_a_header").len(), 1, "{}", path.display());
        }
    }
}

#[test]
fn enabled_is_true_while_somebody_watches() {
    let (program, _) = several(&["-O2"]);
    let (data, found) = probes_of(&program);
    assert_eq!(probed::run_watched(&program, &data, &[]), "");
    let semaphore = named(&found, "generic")[0].semaphore.expect("a semaphore");
    let printed = probed::run_watched(&program, &data, &[semaphore]);
    assert_eq!(
        printed, "first generic\nsecond generic\n",
        "the library has its own"
    );
    let member = named(&found, "member")[0].semaphore.expect("a semaphore");
    let printed = probed::run_watched(&program, &data, &[member]);
    assert_eq!(printed, "first member\nsecond member\n");
}

/// The bytes of a program, and the places of its notes' three addresses each.
fn notes_at(data: &[u8]) -> Vec<usize> {
    let owner = b"stapsdt\0";
    let found = data.windows(owner.len()).enumerate();
    found
        .filter(|(at, window)| *window == owner && data[at - 4..*at] == [3, 0, 0, 0])
        .map(|(at, _)| at + owner.len())
        .collect()
}

fn add(data: &mut [u8], at: usize, number: u64) {
    let word: [u8; 8] = data[at..at + 8].try_into().expect("8 bytes");
    let sum = u64::from_le_bytes(word).wrapping_add(number);
    data[at..at + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Prelinking moves sections and leaves notes: as if they had been written for another place.
#[test]
fn a_prelinked_file_is_read_as_gdb_reads_it() {
    let (program, _) = several(&["-O2"]);
    let (data, found) = probes_of(&program);
    let mut moved = data.clone();
    for at in notes_at(&data) {
        for word in 0..3 {
            let is_none = data[at + 8 * word..at + 8 * word + 8] == [0; 8];
            add(
                &mut moved,
                at + 8 * word,
                if is_none { 0 } else { 0x1234_5000 },
            );
        }
    }
    assert_ne!(moved, data);
    let now = ElfFile::parse(&moved).expect("an ELF file").static_probes();
    let places = |found: &StaticProbes| -> Vec<_> {
        let probes = found.probes.iter();
        probes
            .map(|p| (p.name.clone(), p.address, p.semaphore))
            .collect()
    };
    assert_eq!(places(&now), places(&found));
    if !programs::has("gdb") {
        return;
    }
    let path = program.with_extension("prelinked");
    std::fs::write(&path, &moved).expect("write");
    let output = Command::new("gdb")
        .args(["-q", "-nx", "-batch", "-ex", "info probes stap several"])
        .arg(&path)
        .output()
        .expect("gdb");
    let text = String::from_utf8_lossy(&output.stdout);
    for (name, address, semaphore) in places(&now) {
        let semaphore = semaphore.map_or(String::new(), |s| format!("{s:#018x}"));
        let line = text
            .lines()
            .find(|l| l.contains(&format!("{address:#018x}")));
        let line = line.unwrap_or_else(|| panic!("gdb knows no {name} at {address:#x}: {text}"));
        assert!(line.contains(&name) && line.contains(&semaphore), "{line}");
    }
}

#[test]
fn a_probe_outside_of_the_code_is_skipped_by_name() {
    let (program, _) = several(&["-O2"]);
    let (mut data, found) = probes_of(&program);
    let at = notes_at(&data)[0];
    let away = found.probes[0].address.wrapping_neg();
    add(&mut data, at, away);
    let now = ElfFile::parse(&data).expect("an ELF file").static_probes();
    assert_eq!(now.probes, found.probes[1..]);
    let told = now
        .skipped
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("several:") && told[0].contains("not in the program's code"),
        "{told:?}"
    );
}

/// Damaged notes: an answer, soon, whatever the bytes.
#[test]
fn damaged_notes_are_survived() {
    let path = DWELL[2].make().expect("gcc");
    let (data, found) = probes_of(&path);
    let starts = notes_at(&data);
    let range = starts[0] - 20..starts[starts.len() - 1] + 64;
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    let mut lost = 0;
    for _ in 0..3000 {
        let mut damaged = data.clone();
        for _ in 0..1 + random() % 8 {
            let at = range.start + random() % range.len();
            damaged[at] = random() as u8;
        }
        let now = ElfFile::parse(&damaged)
            .expect("the headers are whole")
            .static_probes();
        assert!(now.probes.len() + now.skipped.len() <= found.probes.len() + 1);
        lost += usize::from(now.probes.len() < found.probes.len());
    }
    assert!(
        lost > 100,
        "only {lost} cases lost a probe: the damage misses the notes"
    );
}

//! Reads real programs, merges them, and runs both.
#![allow(dead_code)]

use dwell_booster::{
    Built, Inputs, LoaderCache, Options, Place, Processor, Profile, ProfiledModule, Refusal, build,
    collect, question,
};
use dwell_elf::ElfFile;
use dwell_elf::unwind::CfiSections;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("dwell-booster-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn cache() -> LoaderCache {
    LoaderCache::parse(&fs::read("/etc/ld.so.cache").unwrap_or_default())
}

/// A program and its libraries.
pub fn inputs(program: &Path) -> Inputs {
    let data = fs::read(program).expect("the program can be read");
    let path = program.to_str().expect("a path in UTF-8");
    collect(path, data, &cache(), |p| fs::read(p).ok())
}

/// What is wanted at level 0, or at level 1: direct calls.
pub fn at_level(direct: bool) -> Options {
    Options {
        direct,
        ..Options::default()
    }
}

/// With the C library, and direct calls.
pub fn with_libc() -> Options {
    Options {
        direct: true,
        libc: true,
        ..Options::default()
    }
}

/// At one address (level 2), with the C library or without.
pub fn at_one_address(libc: bool) -> Options {
    Options {
        direct: true,
        libc,
        fixed: Some(0x5b5f_1234_5000),
        ..Options::default()
    }
}

/// What of the processor the kernel lets programs use (XCR0).
#[target_feature(enable = "xsave")]
fn xcr0() -> u64 {
    // SAFETY: register 0 can be read wherever the instruction is enabled, as in this function.
    unsafe { std::arch::x86_64::_xgetbv(0) }
}

fn enabled() -> u64 {
    assert!(std::arch::is_x86_feature_detected!("xsave"));
    // SAFETY: the processor and the kernel have it, as was just asked.
    unsafe { xcr0() }
}

/// With the loader in the file, and the processor's answers (level 3).
pub fn with_loader() -> Options {
    Options {
        processor: Some(Processor::ask(
            |leaf, part| {
                let r = std::arch::x86_64::__cpuid_count(leaf, part);
                [r.eax, r.ebx, r.ecx, r.edx]
            },
            enabled(),
        )),
        ..at_one_address(true)
    }
}

/// A profile that names each function of all files hot, or one in `one_in`, in an order that chance decides.
pub fn any_profile(inputs: &Inputs, one_in: usize, random: &mut fastrand::Rng) -> Profile {
    let mut profile = Profile::default();
    for (module, (path, data)) in inputs.files.iter().enumerate() {
        let elf = ElfFile::parse(data).expect("an ELF file");
        profile.modules.push(ProfiledModule {
            path: path.clone(),
            build_id: elf.build_id().unwrap_or_default().to_vec(),
        });
        for function in CfiSections::find(&elf).functions() {
            if random.usize(0..one_in) == 0 {
                let address = function.start;
                let place = Place { module, address };
                profile.samples.insert(place, random.u64(1..1_000_000));
            }
        }
    }
    profile
}

/// Merges `program` into the folder, under the program's own name.
pub fn merge_with(
    folder: &Folder,
    program: &Path,
    options: &Options,
) -> Result<(PathBuf, Built), Refusal> {
    let inputs = inputs(program);
    let to = folder.file("boosted");
    fs::create_dir_all(&to).expect("a folder");
    let to = to.join(program.file_name().expect("a file"));
    let mut options = options.clone();
    if let Some(question) = question(&inputs, &options)? {
        write_program(&to, &question.bytes);
        let answer = output(Command::new(&to).env_clear());
        options.choices = Some(question.choices(&answer.stdout).expect("an answer"));
    }
    let built = build(&inputs, &options)?;
    write_program(&to, &built.bytes);
    Ok((to, built))
}

fn write_program(to: &Path, bytes: &[u8]) {
    fs::write(to, bytes).expect("the merged file is written");
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).expect("made executable");
}

pub fn run(program: &Path, args: &[&str]) -> Output {
    output(Command::new(program).args(args).env("LC_ALL", "C.UTF-8"))
}

/// Runs a program. One that was just written may be busy: another test's child has it open while it starts.
pub fn output(command: &mut Command) -> Output {
    loop {
        match command.output() {
            Err(why) if why.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            output => return output.unwrap_or_else(|e| panic!("{command:?} runs: {e}")),
        }
    }
}

/// Runs a compiler in the folder; arguments in double quotes may have spaces.
pub fn compile(folder: &Folder, command: &str) {
    let parts = command.split('"').enumerate();
    let words = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let words: Vec<&str> = words.collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(&folder.0)
        .output()
        .expect("the compiler runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {message}");
}

/// Both must print the same and end the same way.
pub fn same(stock: &Path, merged: &Path, args: &[&str]) -> Output {
    let (old, new) = (run(stock, args), run(merged, args));
    let text = |o: &Output| {
        let all = [&o.stdout[..], &o.stderr[..]].concat();
        // Messages name the program by the path it was called by.
        String::from_utf8_lossy(&all).replace(
            merged.to_str().expect("UTF-8"),
            stock.to_str().expect("UTF-8"),
        )
    };
    assert_eq!(text(&old), text(&new), "{} {args:?}", stock.display());
    assert_eq!(old.status, new.status, "{} {args:?}", stock.display());
    new
}

/// Programs, and arguments with which they wait: for input, or, like ls, for a reader of what they print.
pub const WAITING: [(&str, &[&str]); 5] = [
    ("/usr/bin/bash", &["--norc", "-c", "read x"]),
    ("/usr/bin/git", &["hash-object", "--stdin"]),
    ("/usr/bin/ls", &["-R", "/usr"]),
    ("/usr/bin/perl", &["-e", "<STDIN>"]),
    ("/usr/bin/python3.11", &["-sS", "-c", "input()"]),
];

/// A merged program that can be run to where it waits, and what was measured of it and of the stock one.
pub struct Compared<'a> {
    /// Its name and the way in which it was merged.
    pub what: String,
    pub options: &'a Options,
    pub file: &'a Path,
    pub args: &'a [&'a str],
    pub found: u64,
    pub stock: u64,
}

/// Merges each of these programs that is there in each of the ways, and measures it and the stock one while they wait.
pub fn compare_waiting(
    programs: &[(&str, &[&str])],
    ways: &[(&str, Options)],
    measure: impl Fn(&Path, &[&str]) -> u64,
    check: impl Fn(Compared<'_>),
) {
    let mut compared = 0;
    for &(program, args) in programs.iter().filter(|(path, _)| Path::new(path).exists()) {
        let program = Path::new(program);
        let folder = Folder::new("waiting");
        let name = program.file_name().expect("a name").to_string_lossy();
        let stock = folder.file(&format!("{name}.s____"));
        fs::copy(program, &stock).expect("copied");
        write_back(&stock);
        let of_stock = measure(&stock, args);
        for (way, options) in ways {
            let merged = match merge_with(&folder, program, options) {
                Ok((merged, _)) => merged,
                Err(why @ Refusal::Unsupported { .. }) => {
                    println!("{name}: {why}");
                    continue;
                }
                Err(why) => panic!("{name}: {why}"),
            };
            let of_same_length = folder.file(&format!("{name}.boost_"));
            fs::rename(merged, &of_same_length).expect("renamed");
            write_back(&of_same_length);
            check(Compared {
                what: format!("{name}, {way}"),
                options,
                file: &of_same_length,
                args,
                found: measure(&of_same_length, args),
                stock: of_stock,
            });
            compared += 1;
        }
    }
    assert!(compared >= 3, "only {compared} could be compared");
}

/// Perl and Python choose at random how their tables hash, and so how many pages the tables lie in.
const NOT_AT_RANDOM: [(&str, &str); 2] = [("PERL_HASH_SEED", "0"), ("PYTHONHASHSEED", "0")];

/// What the kernel tells of a program that waits: the text of a file of its folder in `/proc`. Without random addresses, and
/// under a name as long as the other's, the same program needs the same each time.
pub fn while_it_waits(program: &Path, args: &[&str], name: &str) -> String {
    let mut child = Command::new("setarch")
        .arg("-R")
        .arg(program)
        .args(args)
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .envs(NOT_AT_RANDOM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("setarch runs");
    wait_until_it_waits(&child);
    let text = fs::read_to_string(format!("/proc/{}/{name}", child.id()));
    child.kill().expect("ours");
    child.wait().expect("ours");
    text.expect("the kernel tells")
}

/// The fields of a process' `stat` from its state on: the third of proc(5).
pub fn fields_from_state(stat: &str) -> Vec<&str> {
    stat.rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect()
}

fn wait_until_it_waits(child: &Child) {
    let end = Instant::now() + Duration::from_secs(20);
    let mut last = None;
    loop {
        thread::sleep(Duration::from_millis(100));
        assert!(Instant::now() < end, "it does not wait");
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let fields = fields_from_state(&stat);
        assert_ne!(fields[0], "Z", "it ended instead of waiting");
        // Its processor time.
        let now = Some(fields[11].to_owned());
        if fields[0] == "S" && now == last {
            return;
        }
        last = now;
    }
}

/// Pages of a file that are not on the disk yet would count as the process' own.
fn write_back(file: &Path) {
    let file = fs::File::open(file).expect("there");
    file.sync_all().expect("written back");
}

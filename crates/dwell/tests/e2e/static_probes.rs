//! Static probes of `dwell/sdt.h` as other tools see them: the program and the commands are those of
//! `docs/static-probes.md`.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with the program `requests`; removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn with_requests(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dwell-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let folder = Folder(path);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/static-probes.md")).expect("the text");
        let block = text.split("\n```").find(|b| b.contains("file: requests.c"));
        let (_, code) = block.and_then(|b| b.split_once('\n')).expect("requests.c");
        std::fs::write(folder.0.join("requests.c"), code).expect("write");
        let include = format!("-I{}", root.join("include").display());
        let output = folder.run(&["gcc", "-O2", "-g", &include, "-o", "requests", "requests.c"]);
        assert!(output.status.success(), "{output:?}");
        folder
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&self.0);
        // perf keeps what it learns of files in the home folder.
        command.env("HOME", &self.0);
        command
            .output()
            .unwrap_or_else(|e| panic!("{}: {e}; run tools/install-deps.sh", words[0]))
    }

    fn printed(&self, words: &[&str]) -> String {
        String::from_utf8_lossy(&self.run(words).stdout).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
#[ignore = "needs root"]
fn bpftrace_lists_the_probes_and_reads_their_arguments() {
    let folder = Folder::with_requests("bpftrace");
    let listed = folder.printed(&["bpftrace", "-l", "usdt:./requests:*"]);
    for name in ["request__start", "request__done"] {
        assert!(listed.contains(&format!("server:{name}")), "{listed}");
    }
    let script = r#"
        usdt:./requests:server:request__start { printf("start %d %s %d\n", arg0, str(arg1), arg2); }
        usdt:./requests:server:request__done { printf("done %d\n", arg0); }"#;
    let printed = folder.printed(&["bpftrace", "-e", script, "-c", "./requests 20"]);
    for id in 0..20 {
        for line in [format!("start {id} /page/{id} 5"), format!("done {id}")] {
            assert!(printed.lines().any(|l| l == line), "{line}: {printed}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn gdb_stops_at_a_probe() {
    let folder = Folder::with_requests("gdb");
    let commands = [
        "info probes stap server",
        "break -probe-stap server:request__start",
        "run",
        "continue",
        r#"printf "at %d %s %d of %d\n", $_probe_arg0, $_probe_arg1, $_probe_arg2, $_probe_argc"#,
    ];
    let mut words = vec!["gdb", "-q", "-nx", "-batch"];
    words.extend(commands.iter().flat_map(|c| ["-ex", c]));
    words.push("./requests");
    let printed = folder.printed(&words);
    assert!(printed.contains("request__done"), "{printed}");
    assert!(printed.contains("at 1 /page/1 5 of 3"), "{printed}");
}

/// perf lists the probes and knows where they are and which registers their arguments are in.
#[test]
#[ignore = "needs root"]
fn perf_reads_the_probes() {
    let folder = Folder::with_requests("perf");
    let cached = folder.run(&["perf", "buildid-cache", "--add", "requests"]);
    assert!(cached.status.success(), "{cached:?}");
    let listed = folder.printed(&["perf", "list", "sdt"]);
    assert!(listed.contains("sdt_server:request__start"), "{listed}");
    let defined = folder.printed(&[
        "perf",
        "probe",
        "-x",
        "requests",
        "-D",
        "sdt_server:request__start",
    ]);
    assert!(defined.contains("sdt_server/request__start"), "{defined}");
    let arguments = defined.matches("arg").count();
    assert!((2..=3).contains(&arguments), "{defined}");
}

/// What the kernel's uprobes at the site leave of a program: everything. Leaf functions keep values below the
/// stack pointer, which a probe must not touch.
#[test]
#[ignore = "needs root"]
fn a_probed_leaf_function_keeps_its_red_zone() {
    let folder = Folder::with_requests("leaf");
    let code = r#"
        #include <dwell/sdt.h>
        #include <stdio.h>
        static __attribute__((noipa)) long leaf(long a, long b)
        {
            volatile long kept[8];
            for (int i = 0; i < 8; i++)
                kept[i] = a + i;
            DWELL_PROBE(red, zone, a, b);
            long sum = 0;
            for (int i = 0; i < 8; i++)
                sum += kept[i] * b;
            return sum;
        }
        int main(void)
        {
            int wrong = 0;
            for (long i = 0; i < 10000; i++)
                wrong += leaf(i, 3) != 3 * (8 * i + 28);
            printf("%d wrong\n", wrong);
            return wrong != 0;
        }"#;
    std::fs::write(folder.0.join("leaf.c"), code).expect("write");
    let include = format!("-I{}/../../include", env!("CARGO_MANIFEST_DIR"));
    let output = folder.run(&["gcc", "-O2", &include, "-o", "leaf", "leaf.c"]);
    assert!(output.status.success(), "{output:?}");
    let script = "usdt:./leaf:red:zone { @hits = count(); }";
    let printed = folder.printed(&["bpftrace", "-e", script, "-c", "./leaf"]);
    assert!(printed.contains("0 wrong"), "{printed}");
    assert!(printed.contains("@hits: 10000"), "{printed}");
}

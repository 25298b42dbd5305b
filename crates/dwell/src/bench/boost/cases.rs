//! What is run, and what is wanted of it.
use super::report::Way;
use serde::Serialize;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// From start to end of a run that does next to nothing, ns.
    Start,
    /// Processor time of a run that computes, ns.
    Loop,
    /// Memory of a waiting process that it has for itself and has written to, bytes.
    Memory,
    /// A shell script that runs programs, ns per script.
    Shell,
}

impl Kind {
    /// Of something of this kind: that by which it is chosen.
    pub fn title(self, what: &str) -> String {
        let kind = match self {
            Kind::Start => "start",
            Kind::Loop => "loop",
            Kind::Memory => "memory",
            Kind::Shell => "shell",
        };
        format!("{kind}: {what}")
    }
}

/// A program with its arguments.
#[derive(Debug)]
pub struct Case {
    pub kind: Kind,
    pub program: &'static str,
    pub args: &'static [&'static str],
    /// What it is tried out with before it is measured.
    pub probe: &'static str,
    /// Most that boosted ÷ stock may be with the C library at level 1, where there is a goal of its own.
    goal: Option<f64>,
}

/// No program may become slower than this, and none may need more memory than stock.
const WORST: f64 = 1.02;
/// Goals of programs that begin quickly: at level 1, and at levels 2 and 3.
const FAST_START: f64 = 0.85;
const FASTER_START: f64 = 0.65;

impl Case {
    /// As it is typed.
    pub fn title(&self) -> String {
        self.kind
            .title(&format!("{} {}", self.program, self.args.join(" ")))
    }

    /// Most that boosted ÷ stock may be.
    pub fn limit(&self, way: Way) -> f64 {
        match self.kind {
            Kind::Memory => 1.0,
            Kind::Start if way.level >= 2 && self.goal == Some(FAST_START) => FASTER_START,
            _ => self
                .goal
                .filter(|_| way.libc && way.level >= 1)
                .unwrap_or(WORST),
        }
    }
}

const fn start(program: &'static str, args: &'static [&'static str], goal: Option<f64>) -> Case {
    Case {
        kind: Kind::Start,
        program,
        args,
        probe: "--version",
        goal,
    }
}

const fn work(program: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        kind: Kind::Loop,
        program,
        args,
        probe: "--version",
        goal: Some(0.95),
    }
}

/// A program that waits for its input, which does not come.
const fn waiting(program: &'static str, args: &'static [&'static str]) -> Case {
    Case {
        kind: Kind::Memory,
        program,
        args,
        probe: "--version",
        goal: None,
    }
}

/// All that is measured.
pub const ALL: &[Case] = &[
    start("bash", &["-c", ":"], Some(FAST_START)),
    start("git", &["--version"], Some(FAST_START)),
    start("ls", &["/"], Some(FAST_START)),
    start("sqlite3", &[":memory:", "select 1"], None),
    start("python3", &["-c", "pass"], None),
    start("perl", &["-e", "1"], None),
    start("curl", &["--version"], None),
    Case {
        probe: "version",
        ..start("openssl", &["version"], None)
    },
    start("gdb", &["--version"], None),
    start("cmake", &["--version"], None),
    // With --version it tells its folder.
    Case {
        probe: "-cc1 -version",
        ..start("clang-19", &["--version"], Some(0.55))
    },
    work(
        "bash",
        &[
            "-c",
            "for ((i = 0; i < 60000; i++)); do x=${i%5}; [[ $x == 7 ]]; done; :",
        ],
    ),
    work(
        "sqlite3",
        &[
            ":memory:",
            "with recursive t(i) as (select 1 union all select i + 1 from t where i < 400000) \
             select count(*), sum(length(hex(i))), max(i % 977) from t",
        ],
    ),
    // Reads the headers of two libraries.
    Case {
        probe: "-cc1 -version",
        goal: None,
        ..work(
            "clang-19",
            &[
                "-resource-dir",
                "/usr/lib/llvm-19/lib/clang/19",
                "-fsyntax-only",
                "-x",
                "c++",
                "-include",
                "regex",
                "-include",
                "iostream",
                "/dev/null",
            ],
        )
    },
    waiting("bash", &["-c", "read x"]),
    waiting("sqlite3", &[":memory:"]),
    waiting("python3", &["-c", "input()"]),
    waiting("perl", &["-e", "<STDIN>"]),
    waiting("gdb", &["-nx", "-q"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_those_of_level_1() {
        let way = |libc| Way { libc, level: 1 };
        let bash = &ALL[0];
        assert_eq!(
            (bash.limit(way(false)), bash.limit(way(true))),
            (1.02, 0.85)
        );
        assert_eq!(waiting("bash", &[]).limit(way(true)), 1.0);
    }
}

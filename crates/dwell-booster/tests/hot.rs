//! Functions copied together: whichever they are and in whatever order, the program does the same.
mod common;

use common::{Folder, any_profile, at_level, inputs, merge_with, same, with_libc};
use dwell_booster::{HotReport, Options, Refusal};
use std::path::Path;

/// Programs whose output is the same in every run.
const RUNS: &[(&str, &[&str])] = &[
    (
        "/usr/bin/bash",
        &[
            "-c",
            "f() { local a=$1; ((a > 1)) && { f $((a-1)); a=$((a*$?%251)); }; return $a; }; f 20; echo $?; \
             x=(a b); echo ${x[@]^^}; case abc in a*c) echo yes;; esac; printf '%05.2f %q\\n' 3.14159 'a b'; \
             [[ foobar =~ o+(b) ]] && echo ${BASH_REMATCH[1]}; echo {1..5} $(echo sub) | rev; trap 'echo bye' EXIT; \
             kill -0 $$; (exit 3)",
        ],
    ),
    (
        "/usr/bin/sqlite3",
        &[
            ":memory:",
            "create table t(a primary key, b text); with recursive n(i) as (select 1 union all select i+1 from n \
             where i<2000) insert into t select i, printf('%08x', i*7919 % 1000) from n; create index x on t(b); \
             select count(*), sum(a), max(b), group_concat(distinct substr(b, 7)) from t where b like '%3%'; \
             select json_group_array(a) from t where a < 9; select sqrt(2), strftime('%Y', 0); delete from t \
             where a % 3 = 0; select b, count(*) from t group by b order by 2 desc, 1 limit 5; explain select 1;",
        ],
    ),
    ("/usr/bin/git", &["help", "-a"]),
    (
        "/usr/bin/perl",
        &[
            "-MPOSIX",
            "-e",
            "my %h; $h{$_ % 7} .= chr(65 + $_ % 26) for 1..999; print map {\"$_$h{$_}\\n\"} \
        sort keys %h; print join ',', map { sprintf '%.3f', sin $_ } grep { $_ & 1 } 1..20; die 'x'",
        ],
    ),
    (
        "/usr/bin/python3.11",
        &[
            "-IS",
            "-c",
            "import json, re\nclass A:\n  def __init__(s, x): s.x = x\n\
        try:\n  [A(i).y for i in range(3)]\nexcept AttributeError as e: print(e)\n\
        print(json.dumps({str(i): [i / 7, 'ä' * i] for i in range(20)}), re.sub('a+', 'b', 'caaat'))\n\
        print(sum(i * i for i in range(10000)), sorted('hello'))",
        ],
    ),
    ("/usr/bin/c++filt", &["_ZNSt6vectorIiSaIiEE9push_backEOi"]),
    ("/usr/bin/cmake", &["-E", "sha256sum", "/etc/passwd"]),
    (
        "/usr/bin/gdb",
        &[
            "-nx",
            "-batch",
            "-ex",
            "print 6*7",
            "-ex",
            "python print(1+1)",
            "-ex",
            "nonsense",
        ],
    ),
];

fn ways() -> [Options; 2] {
    [with_libc(), at_level(true)]
}

/// Merged with some of all functions copied, by chance; it must do what stock does.
fn check(
    (program, args): (&Path, &[&str]),
    mut way: Options,
    one_in: usize,
    seed: u64,
) -> Option<HotReport> {
    let name = program
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let folder = Folder::new(&format!("hot-{name}-{}-{one_in}-{seed}", way.libc));
    let mut random = fastrand::Rng::with_seed(seed);
    way.profile = Some(any_profile(&inputs(program), one_in, &mut random));
    let (merged, built) = match merge_with(&folder, program, &way) {
        Ok(made) => made,
        Err(Refusal::Unsupported { .. }) if way.libc => return None,
        Err(why) => panic!("{name}, seed {seed}: {why}"),
    };
    same(program, &merged, args);
    Some(built.hot.expect("a profile was given"))
}

fn installed() -> impl Iterator<Item = (&'static Path, &'static [&'static str])> {
    let all = RUNS
        .iter()
        .map(|(program, args)| (Path::new(*program), *args));
    all.filter(|(program, _)| program.exists())
}

/// All functions that can be copied are, and run.
#[test]
fn all_functions_copied() {
    let mut done = 0;
    for run in installed() {
        // Large ones take long: once is enough.
        let large = ["/usr/bin/cmake", "/usr/bin/gdb"].map(Path::new);
        let ways = ways()
            .into_iter()
            .take(if large.contains(&run.0) { 1 } else { 2 });
        for way in ways {
            let Some(report) = check(run, way, 1, 1) else {
                continue;
            };
            let left: usize = report.left.values().map(|s| s.functions).sum();
            eprintln!("{}: {report:?}", run.0.display());
            assert!(
                report.cloned.functions > 9 * left,
                "{}: {report:?}",
                run.0.display()
            );
            assert!(report.entries * 3 > report.cloned.functions, "{report:?}");
            done += 1;
        }
    }
    assert!(done >= 3, "hardly any program is installed");
}

/// Any subset in any order.
#[test]
fn any_functions_copied() {
    let mut done = 0;
    for (number, run) in installed().enumerate() {
        for (way, one_in) in ways().into_iter().zip([2, 9]) {
            let seed = 100 + number as u64;
            done += usize::from(check(run, way, one_in, seed).is_some());
        }
    }
    assert!(done >= 3, "hardly any program is installed");
}

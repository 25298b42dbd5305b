#!/usr/bin/env python3
"""Programs' own test suites, with the stock programs and with boosted ones, compared test by test.

    tools/suites.py [--dwell D] [--mode static] [--level 1] [--profile X.dwell] [--folder F] [SUITE...]

Suites: bash, coreutils, grep, sed, python3 (all, when none is named). The sources are those of the
distribution's packages; what they say passes or fails does not matter here, only that it is the same with
both. A test that came out differently is repeated with both: it differs when stock never comes out as
boosted does. Stock and boosted programs run under the same path, one after the other. Level 4 needs a
recording of the programs at work. Ends with 1 when a test differs. Everything is kept in the folder (some
500 MB), which can be removed at any time.
"""
import argparse
import hashlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPEATS = 3


def run(command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, **more)


def fetch_source(package, folder):
    """Unpacks a source package of the distribution, by package lists of our own; gives its folder."""
    def unpacked():
        # Beside it lie folders of ours, such as bash-run.
        return [f for f in folder.iterdir() if f.is_dir() and re.match(re.escape(package) + r"-\d", f.name)]
    if found := unpacked():
        return found[0]
    apt = folder / "apt"
    for part in ["parts", "lists/partial"]:
        (apt / part).mkdir(parents=True, exist_ok=True)
    for file in Path("/etc/apt/sources.list.d").glob("*.sources"):
        (apt / "parts" / file.name).write_text(file.read_text().replace("Types: deb\n", "Types: deb-src\n"))
    lines = Path("/etc/apt/sources.list")
    text = lines.read_text() if lines.exists() else ""
    (apt / "parts" / "main.list").write_text(re.sub(r"(?m)^deb ", "deb-src ", text))
    options = ["-q", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={apt}/parts",
               "-o", f"Dir::State::lists={apt}/lists"]
    run(["apt-get", *options, "update"], cwd=folder)
    # Without the distribution's patches: dpkg-source may not be there, and the tests need none of them.
    run(["apt-get", *options, "source", "--download-only", package], cwd=folder)
    archive = next(folder.glob(f"{package}_*.orig.tar.*z"))
    run(["tar", "xf", archive], cwd=folder)
    return unpacked()[0]


class Bash:
    """The run-* scripts; a result is what one prints."""
    programs = {"/usr/bin/bash": "bash"}

    def __init__(self, folder):
        self.source = fetch_source("bash", folder)
        self.place = folder / "bash-run" / "bin"
        self.place.mkdir(parents=True, exist_ok=True)
        for helper in ["recho", "zecho", "printenv", "xcase"]:
            run(["gcc", "-w", "-DHAVE_STRING_H", "-DHAVE_UNISTD_H", "-DHAVE_STDLIB_H", "-I", self.source, "-o",
                 self.place / helper, self.source / "support" / f"{helper}.c"])

    def results(self, only=None):
        tests = self.place.parent / "tests"
        shutil.rmtree(tests, ignore_errors=True)
        shutil.copytree(self.source / "tests", tests, symlinks=True)
        names = only or sorted(f.name for f in tests.glob("run-*"))
        env = dict(os.environ, THIS_SH=str(self.place / "bash"), PATH=f".:{self.place}:{os.environ['PATH']}")
        results = {}
        for name in names:
            if name in ["run-all", "run-minimal", "run-gprof"]:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                env.update(TMPDIR=scratch, BASH_TSTOUT=f"{scratch}/out")
                done = subprocess.run(["timeout", "180", "sh", name], cwd=tests, env=env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = done.stdout.replace(scratch.encode(), b"TMP")
            said = re.sub(rb"\(\d+\)", b"(PID)", said)
            results[name] = f"exit {done.returncode}, printed {hashlib.sha256(said).hexdigest()[:12]}"
        return results


class Automake:
    """`make check-TESTS` in a built tree whose programs are replaced; a result is what the .trs file says."""

    def __init__(self, folder, package, programs, within):
        self.tree = folder / f"{package}-run"
        if not self.tree.exists():
            source = fetch_source(package, folder)
            env = dict(os.environ, FORCE_UNSAFE_CONFIGURE="1")
            run(["./configure", "--quiet", "--disable-nls"], cwd=source, env=env, stderr=subprocess.DEVNULL)
            run(["make", f"-j{os.cpu_count()}"], cwd=source, env=env, stderr=subprocess.DEVNULL)
            source.rename(self.tree)
        self.place = self.tree / within
        self.programs = programs or self.programs_of(package)

    def programs_of(self, package):
        """Those that both the build and the distribution's package have."""
        listed = subprocess.run(["dpkg", "-L", package], check=True, capture_output=True, text=True).stdout
        installed = [f for f in listed.splitlines() if re.match(r"(/usr)?/s?bin/.", f) and not os.path.islink(f)]
        return {f: Path(f).name for f in installed if (self.place / Path(f).name).is_file()}

    def results(self, only=None):
        # Not as root, where there is a choice: root passes tests of permissions that others would fail.
        user, command = pwd.getpwnam("nobody"), ["make", "-k", f"-j{os.cpu_count()}", "check-TESTS"]
        if os.getuid() == 0:
            run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", self.tree])
            command = ["setpriv", "--reuid", "nobody", "--regid", str(user.pw_gid), "--clear-groups", *command]
        folder = self.tree if not (self.tree / "tests/Makefile").exists() else self.tree / "tests"
        if only:
            command.append("TEST_LOGS=" + " ".join(f"{t}.log" for t in only))
        for old in folder.rglob("*.trs"):
            old.unlink()
        subprocess.run(command, cwd=folder, env=dict(os.environ, HOME=str(self.tree), TMPDIR="/tmp"),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Those of gnulib check its functions, not the programs.
        files = [f for f in folder.rglob("*.trs") if "gnulib" not in str(f.relative_to(folder))]
        said = {str(f.relative_to(folder))[:-4]: re.findall(r"^:test-result: (\S+)", f.read_text(), re.M) for f in files}
        return {name: " ".join(results) for name, results in said.items()}


class Python:
    """Modules of the library's tests; a result is what becomes of one case."""
    programs = {os.path.realpath("/usr/bin/python3"): "python3"}
    modules = ("argparse array ast asyncio bisect bytes bz2 cmath codecs collections complex csv ctypes datetime "
               "decimal deque dict email exceptions fcntl float functools gc hashlib heapq io itertools json list "
               "locale long lzma marshal math mmap os pickle pipes posix print queue random re select set shelve "
               "signal socket sqlite3 str string struct subprocess tempfile thread threading time types unicode "
               "unittest uuid weakref xml_etree zipfile zlib").split()

    def __init__(self, folder):
        self.place = folder / "python3-run"
        self.place.mkdir(exist_ok=True)

    def results(self, only=None):
        modules = sorted({name.split(" ")[0] for name in only}) if only else ["test_" + m for m in self.modules]
        results = {}
        for module in modules:
            with tempfile.TemporaryDirectory() as scratch:
                done = subprocess.run(["timeout", "600", self.place / "python3", "-m", "test", "-v", module], cwd=scratch,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = done.stdout.decode(errors="replace")
            for case, end in re.findall(r"^(test\w* \([\w.]+\)).*? \.\.\. (ok|FAIL|ERROR|skipped)", said, re.M):
                results[f"{module} {case}"] = end
            results[f"{module} (all)"] = f"exit {done.returncode}"
        return results


SUITES = {
    "bash": Bash,
    "coreutils": lambda folder: Automake(folder, "coreutils", None, "src"),
    "grep": lambda folder: Automake(folder, "grep", {"/usr/bin/grep": "grep"}, "src"),
    "sed": lambda folder: Automake(folder, "sed", {"/usr/bin/sed": "sed"}, "sed"),
    "python3": Python,
}


def put(suite, programs):
    """Puts programs where the suite looks for them, as new files: the old ones may be running."""
    for stock, name in suite.programs.items():
        place = suite.place / name
        place.unlink(missing_ok=True)
        shutil.copy(programs[stock], place)


def boost(suite, options, folder):
    boosted = {}
    for stock in suite.programs:
        # A folder each: the program keeps its name, which many print.
        out = folder / "boosted" / stock.strip("/").replace("/", "-") / Path(stock).name
        out.parent.mkdir(parents=True, exist_ok=True)
        profile = ["--profile", options.profile] if options.profile else []
        done = subprocess.run([options.dwell, "boost", "build", stock, "-o", out, "--mode", options.mode,
                               "--level", str(options.level), *profile], capture_output=True, text=True)
        if done.returncode:
            print(f"  {stock} stays as it is: {done.stderr.strip().splitlines()[-1]}")
            out = Path(stock)
        boosted[stock] = out
    if all(str(new) == stock for stock, new in boosted.items()):
        sys.exit("no program could be boosted: there is nothing to compare")
    return boosted


def compare(name, options, folder):
    suite = SUITES[name](folder)
    both = {"stock": {stock: stock for stock in suite.programs}, "boosted": boost(suite, options, folder)}
    seen = {}
    for which, programs in both.items():
        put(suite, programs)
        seen[which] = {test: {result} for test, result in suite.results().items()}
    if len(seen["stock"]) < 10:
        sys.exit(f"{name}: only {len(seen['stock'])} tests ran")
    tests = seen["stock"].keys() | seen["boosted"].keys()

    def apart():
        nothing = {"did not run"}
        return sorted(t for t in tests
                      if not seen["stock"].get(t, nothing) & seen["boosted"].get(t, nothing))

    first = apart()
    for _ in range(REPEATS):
        again = apart()
        if not again:
            break
        for which, programs in both.items():
            put(suite, programs)
            for test, result in suite.results(again).items():
                seen[which].setdefault(test, set()).add(result)
    differ = apart()
    passed = sum(any(re.match("PASS|ok|exit 0", r) for r in seen["stock"].get(t, [])) for t in tests)
    print(f"{name}: {len(tests)} tests, {passed} pass with stock; {len(tests) - len(differ)} the same with {len(both['boosted'])} program(s) boosted"
          f" ({len(first) - len(differ)} of them not in every run), {len(differ)} differ")
    for test in differ:
        print(f"  {test}: stock {seen['stock'].get(test)}, boosted {seen['boosted'].get(test)}")
    return not differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent.parent
    target = Path(os.environ.get("CARGO_TARGET_DIR", here / "target"))
    parser.add_argument("--dwell", default=target / "release/dwell")
    parser.add_argument("--mode", default="static")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--profile", help="a recording of the programs")
    parser.add_argument("--folder", type=Path, default=target / "suites")
    parser.add_argument("suite", nargs="*", choices=[*SUITES, []], help=", ".join(SUITES))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    same = [compare(name, options, options.folder.resolve()) for name in options.suite or SUITES]
    sys.exit(not all(same))


if __name__ == "__main__":
    main()

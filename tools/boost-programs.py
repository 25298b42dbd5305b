#!/usr/bin/env python3
"""Programs of the distribution, merged, at work in their own places: does each do what the stock one does?

    tools/boost-programs.py [--dwell D] [--level 1] [--mode static] [--markdown] [PROGRAM...]

Each program that is installed is merged (without the C library where it cannot be merged with it). The boosted file
is mounted over the stock one in a mount namespace of its own, and a piece of work is done twice with stock and once
with boosted: output, end, and every file that came to be must be the same, byte by byte. What stock does anew each
time counts by its end alone. Needs root, and changes nothing outside of its temporary folder. Ends with 1 when
something differs, fewer than 40 programs could be merged, or fewer than 95 % of them with the C library.
"""
import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Where the work is done, the same for all: paths are in outputs and object files.
CPP = """#include <map>
#include <stdexcept>
#include <string>
#include <vector>
template <class T> T sum(const std::vector<T> &v) { T s{}; for (auto &x : v) s += x; return s; }
int main(int argc, char **) {
    std::map<std::string, std::vector<double>> m;
    for (int i = 0; i < 100 * argc; i++) m["k" + std::to_string(i % 7)].push_back(i);
    try { if (m.at("k3").size() != 14) throw std::runtime_error("size"); } catch (const std::exception &) { return 2; }
    return sum(m["k1"]) > 0 ? 0 : 1;
}
"""
# Name, what it is tried out with, what it has to do (by a shell; $P is the program, text a text, text.c and text.cc code).
PROGRAMS = [
    ("bash", "--version", r"""$P -c 'declare -A a; while read -r w _; do a[$w]=x; done < text; echo ${#a[@]} ${!a[*]} | tr " " "\n" | sort | head -99
        f() { local n=$1; (( n < 2 )) && echo $n || echo $(( $(f $((n-1))) + $(f $((n-2))) )); }; f 9; trap "echo bye" EXIT; printf "%q %5.2f\n" "a b" 2.5'"""),
    ("dash", "-c :", r"""$P -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo $i; for f in *; do echo "${f%.c}"; done; set -e; false; echo no'"""),
    ("ls", None, "$P -laR --time-style=+ /usr/share/doc/bash /usr/lib/x86_64-linux-gnu/security; $P /nowhere"),
    ("sort", None, "$P text; $P -k2,2 -n -r text; $P -R --random-source=text text | $P -u; $P -S 16k --parallel=2 text text text"),
    ("cat", None, "$P -A text text.c"),
    ("cp", None, "$P -a /usr/share/doc/bash here; find here -type f | sort | xargs sha256sum"),
    ("wc", None, "$P text text.c; $P -L < text"),
    ("od", None, "$P -t x8 -t fF -t c text"),
    ("sha256sum", None, "$P text text.c > sums; $P -c sums"),
    ("date", None, "LC_ALL=C.UTF-8 TZ=Europe/Vienna $P -d @1700000000 +%c%Z; $P -u -d 'last friday 2001-02-03 +3 weeks'; $P -d nonsense"),
    ("grep", None, r"$P -n -i 'free.*software' text; $P -P '\b(\w)\w*\1\b' -o text; $P -c -v -w the text; $P -r main ."),
    ("sed", None, r"$P -E 's/(\w+) (\w+)/\2 \1/g; /^$/d; $!N; P; D' text; $P -i.old '1,5d' text"),
    ("gawk", None, r"""$P '{ for (i = 1; i <= NF; i++) n[$i]++ } END { PROCINFO["sorted_in"] = "@val_num_desc"; for (w in n) print w, n[w], log(n[w]) }' text; $P 'BEGIN { print strftime("%c", 0, 1); "date -u -d @0" | getline d; print d; print gensub(/a(b)/, "<\\1>", "g", "abab") }'"""),
    ("mawk", "-W version", r"""$P '{ n += length($0); s += NF } END { print n, s, n / s; printf "%s %c %e\n", "x", 65, exp(1) }' text"""),
    ("find", None, r"$P /usr/share/doc/b* -name '*c*' -type f -size +1k -printf '%p %s %m\n' | sort; $P . -newer text.c -exec wc {} +"),
    ("xargs", None, "ls / | $P -n 3 -P 1 echo; echo a b | $P -I@ sh -c 'echo @; exit 3'"),
    ("diff", None, "sed 's/the/THE/' text > other; $P -u --label a --label b text other; $P -y -W 60 text other"),
    ("tar", None, "$P --sort=name --mtime=@0 --owner=0 --group=0 -czf a.tgz -C /usr/share/doc bash; $P -tvf a.tgz; $P -xf a.tgz; $P -df a.tgz"),
    ("gzip", None, "$P -n -9 -k text; $P -l text.gz; $P -dc text.gz | sha256sum"),
    ("bzip2", "--help", "$P -k text; $P -dc text.bz2 | sha256sum; $P -tv text.bz2"),
    ("xz", None, "$P -k -9e text; $P -T2 -k -c text.c > c.xz; $P -dc text.xz | sha256sum; $P -lv text.xz"),
    ("zstd", None, "$P -q -19 text; $P -q -T2 -c text.c > c.zst; $P -dc text.zst | sha256sum"),
    ("make", None, r"""printf 'all: a b\n\t@echo done $(words $(wildcard *))\na b: %%: text\n\t@wc $< > $@\n\t@echo made $@\n' > Makefile; $P -j2 -Otarget > log; sort log; rm log; $P -n -B; $P nothing"""),
    ("perl", None, r"""$P -MPOSIX -MList::Util=sum -MDigest::SHA=sha1_hex -MData::Dumper -e '$Data::Dumper::Sortkeys = 1; open F, "text"; while (<F>) { $n{lc $1}++ while /(\w+)/g } print Dumper(\%n), sum(values %n), sha1_hex("x"), floor(2.5), "\n"; eval { die { a => 1 } }; print $@->{a}; exit 4'"""),
    ("/usr/bin/python3.11", None, r"""$P -IS -c '
import sys, zlib, json, hashlib, ctypes, decimal, threading, sqlite3, ssl, re, collections
t = threading.Thread(target=lambda: print(zlib.crc32(b"dwell"))); t.start(); t.join()
print(collections.Counter(re.findall(r"\w+", open("text").read())).most_common(50), hashlib.sha3_256(b"x").hexdigest())
print(decimal.Decimal(1) / 7, ctypes.CDLL("libc.so.6").abs(-5), sqlite3.connect(":memory:").execute("select 6*7").fetchall(), ssl.OPENSSL_VERSION)
sys.exit(7)'"""),
    ("git", None, r"""export GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000' GIT_CONFIG_GLOBAL=config HOME=$PWD
        $P config --global user.email a@b; $P config --global user.name n; $P init -q -b main r; cp text* r; cd r; $P add .; $P commit -q -m one; sed -i s/the/a/ text; $P diff --stat; $P commit -qam two; $P log -p | sha256sum; $P gc -q; $P fsck; $P clone -q . ../s; $P -C ../s blame text | head"""),
    ("sqlite3", None, r"""$P new.db "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) insert into t select i, hex(i * 7919 % 1009) from n; create index x on t(b); select b, count(*), avg(a), sqrt(sum(a)) from t group by b order by 2 desc limit 20; select json_group_array(a) from t where b like '%3' and a < 99; pragma integrity_check" """),
    ("gdb", None, r"""gcc -g -o a text.c; $P -nx -batch -ex 'info line main' -ex 'disassemble main' -ex 'python print(sum(range(9)))' -ex 'break main' -ex 'ptype int' a; $P -nx -batch -ex 'info functions ^mai' a"""),
    ("curl", None, "$P -s file://$PWD/text | sha256sum; $P -V; $P -s http://127.0.0.1:9/; $P --help all"),
    ("wget", None, "$P --version; $P --tries=1 http://127.0.0.1:9/ 2>&1 | sed 's/^--.*--//'"),
    ("openssl", "version", "$P dgst -sha3-512 text; $P enc -aes-256-ctr -K 00 -iv 00 -in text -out e 2>&1; $P ciphers -v; $P genpkey -algorithm ED25519 -out k; $P pkey -in k -noout -text | wc -l; rm k; $P asn1parse -genstr UTF8:hello"),
    ("ssh", "-V", "$P -V; $P -G nowhere; $P -Q cipher; $P -o ConnectTimeout=1 -p 9 127.0.0.1"),
    ("rsync", None, "$P -a --no-t /usr/share/doc/bash/ there; $P -anv --no-t text there/ | grep -v sec; $P -c --out-format=%n text there/"),
    ("jq", "-n 1", r"""echo '[{"a":1,"b":[2.5,null]},{"a":"x"}]' | $P -S 'map(.a), (.[0].b | map(. // 0 | tostring)), (now > 0)'; echo '{' | $P ."""),
    ("vim.basic", "--version", r"""$P -es -u NONE -N -c '%s/\<the\>/THE/g' -c 'sort u' -c 'w new' -c 'echo strlen(join(getline(1,"$")))' -c q text; sha256sum new"""),
    ("less", None, "$P -F -X text | sha256sum"),
    ("bc", None, "echo 'scale=80; 4*a(1); 2^200; sqrt(2)' | $P -lq"),
    ("file", None, "$P text text.c /bin/sh /usr/share/man/man1/ls.1.gz; $P -bi text.cc"),
    ("cmake", None, r"""printf 'cmake_minimum_required(VERSION 3.20)\nproject(p C)\nadd_executable(a text.c)\nmessage(STATUS ${CMAKE_C_COMPILER_ID})\n' > CMakeLists.txt; $P -S . -B b | sed 's/([0-9.]*s)//'; $P --build b; b/a; rm -r b; $P --help-command-list"""),
    ("ninja", None, r"""printf 'rule w\n command = wc $in > $out\nbuild a: w text\nbuild b: w a\n' > build.ninja; $P | cat; $P -t graph; $P; rm .ninja*"""),
    ("/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "--version", "g++ -O2 -g -c text.cc -o a.o; g++ -O0 -S text.cc; g++ -O3 -std=c++20 -fsyntax-only -Wall text.c; g++ text.cc -o b && ./b"),
    ("/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "--version", "gcc -O2 -g -c text.c -o a.o; gcc -O3 -S text.c; gcc -c text.cc -x c -w"),
    ("x86_64-linux-gnu-as", None, "gcc -S text.c; $P text.s -o a.o; objdump -d a.o; echo nonsense | $P -o b.o"),
    ("x86_64-linux-gnu-ld.bfd", None, "gcc text.c -o a; g++ -static text.cc -o b; ./b; $P --verbose"),
    ("x86_64-linux-gnu-objdump", None, "$P -d -M intel /bin/true; $P -x /bin/true"),
    ("x86_64-linux-gnu-readelf", None, "$P -aW /bin/true"),
    ("clang-19", "-cc1 -version", "$P -O2 -g -c text.c -o a.o; $P -O3 -c text.c -S -emit-llvm; $P -x c++ -O2 -c text.cc -o b.o; $P --version; $P -c nowhere.c"),
    ("node", None, r"""$P -e 'const z = require("zlib"), c = require("crypto"), fs = require("fs"); const t = fs.readFileSync("text"); console.log(c.createHash("sha256").update(z.gzipSync(t, {level: 9})).digest("hex")); let a = []; for (let i = 0; i < 3e5; i++) a.push(i * i % 977); console.log(a.sort((x, y) => x - y).slice(0, 9), process.execPath, new Intl.DateTimeFormat("de").format(0)); const {Worker} = require("worker_threads"); new Worker("require(\"worker_threads\").parentPort.postMessage(6*7)", {eval: true}).on("message", m => console.log(m)); setTimeout(() => { throw new TypeError("x") }, 300)'"""),
    ("/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "-version", r"""printf 'class A { public static void main(String[] a) { long s = 0; for (int i = 0; i < 1000000; i++) s += i %% 7; System.out.println(s + " " + java.util.stream.IntStream.range(0, 99).parallel().sum()); } }' > A.java; $P A.java"""),
    ("nginx", "-V", r"""printf 'daemon off; pid p; error_log /dev/null; events {} http { access_log off; server { listen unix:s; root .; gzip on; gzip_types *; server_tokens off; } }' > c; chmod 777 .; $P -p $PWD -c c & sleep 0.4; for f in text text.c none; do curl -s --compressed --unix-socket s http://h/$f | sha256sum; done; kill -QUIT $!; wait; rm -f s p; rm -rf *temp"""),
    ("redis-server", None, r"""$P --port 0 --unixsocket $PWD/s --save "" --dir $PWD > log & sleep 0.4; for i in 1 2 3; do redis-cli -s s set k$i $i; done; redis-cli -s s --no-raw eval 'return {redis.call("keys", "*") and 1, redis.sha1hex("x"), 6 * 7}' 0; redis-cli -s s zadd z 1 a 2 b; redis-cli -s s zrange z 0 -1 withscores; redis-cli -s s shutdown nosave; wait; rm -f log s"""),
    ("redis-cli", None, "$P --version; $P -p 9 ping"),
    ("memcached", None, r"""$P -u nobody -s $PWD/s -t 2 & sleep 0.4; printf 'set k 0 0 3\r\nabc\r\nget k\r\nincr k 1\r\nversion\r\nquit\r\n' | socat - UNIX-CONNECT:s; { kill $!; wait; } 2> log; rm -f s log"""),
    ("/usr/lib/postgresql/15/bin/postgres", None, r"""mkdir d; chown nobody d; printf "create table t(a int, b text);\ninsert into t select i, md5(i::text) from generate_series(1, 3000) i;\nselect substr(b, 1, 1) c, count(*), avg(a)::numeric(9,3) from t group by c order by c;\nselect regexp_replace('foobar', 'o+', 'x'), to_char(date '2001-02-03', 'Day DD Month'), 2 ^ 0.5;\n" > q
        run() { setpriv --reuid nobody --clear-groups env TZ=UTC "$@"; }; run /usr/lib/postgresql/15/bin/initdb -D d -A trust --no-locale -E UTF8 -N > log 2>&1 || cat log; run $P --single -D d -c log_line_prefix= postgres < q; rm -rf d log"""),
    ("/usr/lib/postgresql/15/bin/psql", None, "$P --version; $P -h $PWD -c 'select 1'; $P --help=variables"),
    ("mariadbd", None, r"""$P --version; $P --no-defaults --help --verbose | grep -v -i -e 'host' -e pid | head -900"""),
    ("tmux", "-V", r"""export TERM=screen; $P -S s -f /dev/null new-session -d -x 80 -y 24 'cat text; sleep 9'; sleep 0.4; $P -S s capture-pane -p; $P -S s kill-server; rm -f s"""),
    ("strace", None, "$P -e trace=write -o t echo hello; grep -c write t; rm t; $P -c true 2>&1 | wc -l > /dev/null"),
    ("ip", "-V", "$P -V; $P -j -d link show lo; $P route get 127.0.0.1 | grep -v cache"),
    ("ps", None, "$P -o comm= -p $$; $P --version; $P -o pid= -p 1"),
    ("dpkg", None, "$P -l bash libc6; $P -L bash | sha256sum; $P --compare-versions 1:2.3~a lt 1:2.3; $P -S /bin/ls"),
    ("apt-get", None, "$P --version; $P -s -o Debug::NoLocking=1 install bash 2>&1 | head -9; apt-config dump | sha256sum"),
    ("systemctl", None, "$P --version; $P list-unit-files --root=/ --no-pager | sha256sum; $P cat --root=/ nothing"),
    ("cpio", None, "ls text* | $P -o --reproducible -H newc > a; $P -t < a"),
    ("unzip", "-v", "zip -q -X -r z.zip text text.c; $P -l z.zip | tail -1; $P -p z.zip | sha256sum; rm z.zip"),
    ("lsof", "-v", "$P -v 2>&1 | grep revision; exec 9< text; $P -a -p $$ -d 9 -F n"),
    ("socat", "-V", "$P -u FILE:text EXEC:wc; $P -lp x -u OPEN:nowhere STDOUT 2>&1 | sed 's/.* x//;s/.\[[0-9]*\]//'"),
    ("man", None, "$P -P cat --warnings ls | sha256sum; $P -w bash; $P -k nothing-of-it"),
    ("perf", "version", "$P version; $P list --help | head -3; $P stat -e task-clock -x, true 2>&1 | wc -l"),
]


def find(name):
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    return Path(path).resolve() if path else None


def build(dwell, program, options, probe, folder):
    """Merges with the C library, else without; gives (file or None, mode, seconds, what was said)."""
    out, said = folder / program.name, ""
    for mode in dict.fromkeys([options.mode, "static-nolibc"]):
        tests = ["--test", probe] if probe else []
        # nolibc has no level above 1 that is kept apart from the C library's loader.
        level = options.level if mode == "static" else min(options.level, 2)
        command = [dwell, "boost", "build", program, "-o", out, "--mode", mode, "--level", str(level), *tests]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        took = time.monotonic() - start
        if done.returncode == 0:
            return out, mode, took, said
        said += f"{mode}: {done.stderr.strip().splitlines()[-1].removeprefix('dwell: ')}; "
    return None, "-", took, said


def work(program, script, boosted, folder):
    """What the work gives: end, output and files. The folder is the same each time; a mount namespace of its own hides
    the stock program, and ends with the work."""
    place = folder / "work"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, text in TEXTS.items():
        (place / name).write_text(text)
        os.utime(place / name, (10**9, 10**9))
    mount = f"mount --bind {shlex.quote(str(boosted))} {shlex.quote(str(program))} && " if boosted else ""
    inner = f"{mount}cd {place} && P={shlex.quote(str(program))} && {script}"
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place), "LC_ALL": "C.UTF-8",
           "TERM": "dumb", "TMPDIR": str(place)}
    done = subprocess.run(["timeout", "-k", "5", "120", "unshare", "-m", "--propagation", "private", "bash", "-c", inner],
                          env=env, stdin=subprocess.DEVNULL, capture_output=True)
    files = {str(f.relative_to(place)): hashlib.sha256(f.read_bytes()).hexdigest()
             for f in sorted(place.rglob("*")) if f.is_file() and not f.is_symlink() and ".git" not in str(f)}
    return done.returncode, done.stdout, done.stderr, files


def compare(program, script, boosted, folder):
    """One word on whether both do the same, and the first thing that differs."""
    what = ["end", "output", "error output", "files"]
    # Times that a program prints differ now and then: it differs when it does three times over.
    for _ in range(3):
        first, again, new = (work(program, script, file, folder) for file in [None, None, boosted])
        differing = [w for w, a, b, c in zip(what, first, again, new) if a == b != c]
        if not differing:
            break
    changing = [w for w, a, b in zip(what, first, again) if a != b]
    made = {f for f in first[3] if f not in TEXTS}
    if differing:
        at = what.index(differing[0])
        return "DIFFERS", f"{differing[0]}: {first[at]!r:.300} became {new[at]!r:.300}"
    if first[0] == 127 or not (first[1] or first[2] or made):
        return "NOTHING DONE", f"{first[2]!r:.200}"
    files = f" and {len(made)} file(s)" if made else ""
    note = f"; stock itself changes its {' and '.join(changing)}" if changing else ""
    return "same", f"{len(first[1]) + len(first[2])} bytes{files}{note}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent.parent
    target = Path(os.environ.get("CARGO_TARGET_DIR", here / "target"))
    parser.add_argument("--dwell", default=target / "release/dwell")
    parser.add_argument("--mode", default="static")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--markdown", action="store_true", help="print the rows of a Markdown table")
    parser.add_argument("program", nargs="*", help="by the last part of its path; all when none is named")
    options = parser.parse_args()
    if os.getuid() != 0:
        sys.exit("it mounts: run it as root")
    start, end = ("| ", " |") if options.markdown else ("", "")
    merged, static, failed = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="dwell-programs-") as folder:
        folder = Path(folder)
        folder.chmod(0o755)
        for name, probe, script in PROGRAMS:
            if options.program and Path(name).name not in options.program:
                continue
            program = find(name)
            if program is None:
                continue
            # Under its own name: some programs do what they are called.
            (folder / "boosted").mkdir(exist_ok=True)
            file, mode, took, said = build(options.dwell, program, options, probe, folder / "boosted")
            row = [Path(name).name, mode, f"{took:.2f} s"]
            if file:
                merged, static = merged + 1, static + (mode == "static")
                verdict, detail = compare(program, script, file, folder)
                failed += verdict != "same"
                row += [verdict, said + detail]
            else:
                row += ["-", said]
            print(start + " | ".join(row) + end, flush=True)
            shutil.rmtree(folder / "boosted")
    print(f"\n{merged} programs merged, {static} of them with the C library; {failed} do not do the same")
    enough = options.program or merged >= 40 and static >= 0.95 * merged
    sys.exit(not (enough and failed == 0))


LICENCE = Path("/usr/share/common-licenses/GPL-3")
TEXTS = {
    "text": LICENCE.read_text() if LICENCE.exists() else CPP * 200,
    "text.c": "#include <stdio.h>\n" + "".join(f"int f{i}(int x) {{ return x * {i} + {i * i % 7}; }}\n" for i in range(300))
              + 'int main(void) { printf("%d\\n", f7(6)); return 0; }\n',
    "text.cc": CPP,
}

if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# Runs every test. The end-to-end tests load eBPF programs and need root: they are marked
# #[ignore = "needs root"], and run here as root, or through sudo where it asks for no password.
# What is left out is named; in CI (CI=true) leaving something out is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
export DWELL_TEST_PROGRAMS=${DWELL_TEST_PROGRAMS:-$target/programs}
left_out=()
as_root=()

# In CI the compiler is Clippy, which is one: what is compiled for the tests is linted on the way, warnings denied, and nothing
# is looked at twice.
if [ "${CI:-false}" = true ]; then
    export RUSTC_WORKSPACE_WRAPPER=clippy-driver RUSTFLAGS="-D warnings"
fi

step() { printf '\n== %s (after %d s)\n' "$*" $SECONDS; }

# Tests of what does not hold yet, by name: run by hand with `cargo test -- --ignored NAME`. Named in
# the output of every run, so that nobody forgets them.
not_yet=()
while read -r name _; do
    case "$name" in "" | \#*) ;; *) not_yet+=("$name") ;; esac
done <tests/not-yet.txt

# Tests that measure no times: counts, stacks and names are the same beside another test, and each test waits for half of
# its time. By their program, those of e2e by their module, too.
two_at_a_time=" e2e::blocks e2e::boost e2e::boost_blame e2e::boost_names e2e::boost_redirect e2e::command e2e::counts \
    e2e::deadlocks e2e::import e2e::javascript e2e::names e2e::python e2e::robust_input e2e::stacks e2e::stacks_oracle \
    e2e::static_probes e2e::trace e2e::trace_engines e2e::trace_everything e2e::trace_globals e2e::trace_language \
    e2e::trace_stacks e2e::vm exact killed programs torture "

# Of these, tests that ask for what no busy host can disturb: exact counts, restored code. A mistake there may show in one run
# of many, and shall not pass at the second try.
never_repeated=" exact killed torture "

# The programs of end-to-end tests: name, folder of the package, file. As they were made for all tests: cargo, asked for one,
# would compile its dependencies anew, with fewer features.
end_to_end_programs() {
    cargo test --workspace --locked --no-run --message-format=json | python3 -c '
import json, os, sys
for line in sys.stdin:
    made = json.loads(line)
    if made.get("executable") and made["target"]["kind"] == ["test"]:
        folder = os.path.dirname(made["manifest_path"])
        package, name = os.path.basename(folder), made["target"]["name"]
        if name == "e2e" or package in ("dwell-collector", "dwell-patch", "dwell-locks", "dwell-trace"):
            print(name, folder, made["executable"])
'
}

# Calls one of them, or those of that name: NAME ARGUMENT...
call() {
    local name folder file status=0
    while read -r name folder file; do
        [ "$name" = "$1" ] || continue
        (cd "$folder" && "${as_root[@]}" "$file" --ignored "${@:2}" </dev/null) || status=1
    done <<<"$programs"
    return $status
}

# The names of the tests that an output says have failed.
failures_in() { awk '/^failures:$/ { list = 1 } list && /^    [a-z0-9_:]+$/ { print $1 }' "$1" | sort -u; }

# Of the time of all processors in the last 5 s, what the host of a virtual machine took from them, in %.
stolen_percent() {
    local before now field all=0
    read -ra before </proc/stat
    sleep 5
    read -ra now </proc/stat
    for field in {1..8}; do all=$((all + now[field] - before[field])); done
    echo $((100 * (now[8] - before[8]) / (all > 0 ? all : 1)))
}

# Returns when the host has taken less than 3 % for 5 s, and at the latest after a minute.
wait_until_calm() {
    local percent end=$((SECONDS + 60))
    while percent=$(stolen_percent) && [ "$percent" -ge 3 ] && [ "$SECONDS" -lt "$end" ]; do :; done
    echo "The host takes $percent % of the processors' time."
}

# Runs tests of a group, where they measure no times so many at once: try_group GROUP SO_MANY TEST... What fails is kept for
# later (again), but for what names no test, or is never repeated (failed).
try_group() {
    local group=$1 at_a_time=1 names
    case "$two_at_a_time" in *" $group "*) at_a_time=$2 ;; esac
    call "${group%%::*}" --test-threads="$at_a_time" --exact "${@:3}" 2>&1 | tee "$output" && return
    names=$(failures_in "$output" | paste -sd ' ')
    case "$never_repeated" in *" $group "*) names= ;; esac
    if [ -n "$names" ]; then again[$group]=$names; else failed+=("$group"); fi
}

# Most one at a time: they measure times, and the machine may have two processors. What fails is run up to
# twice more by itself, after all others and when the host lets the machine alone: on a machine shared with
# others a measurement can be disturbed, a bug stays.
end_to_end() {
    local failed=() groups=() names=() programs program name group list output
    local -A tests=() again=()
    programs=$(end_to_end_programs)
    for program in $(cut -d ' ' -f 1 <<<"$programs" | sort -u); do
        list=$(call "$program" --list --format terse | sed -n 's/: test$//p')
        for name in $list; do
            case " ${not_yet[*]} " in *" $name "*) continue ;; esac
            group=$program
            [ "$program" != e2e ] || group=e2e::${name%%::*}
            [ -n "${tests[$group]:-}" ] || groups+=("$group")
            tests[$group]+=" $name"
        done
    done
    output=$(mktemp)
    for group in "${groups[@]}"; do
        read -ra names <<<"${tests[$group]}"
        try_group "$group" 2 "${names[@]}"
    done
    for _ in 1 2; do
        [ ${#again[@]} -gt 0 ] || break
        step "waiting for a calm moment to repeat what failed: ${again[*]}"
        wait_until_calm
        for group in "${!again[@]}"; do
            read -ra names <<<"${again[$group]}"
            unset "again[$group]"
            step "$group failed; once more: ${names[*]}"
            try_group "$group" 1 "${names[@]}"
        done
    done
    failed+=("${!again[@]}")
    rm -f "$output"
    [ ${#not_yet[@]} -eq 0 ] || printf '\nDoes not hold yet and was left out (tests/not-yet.txt): %s\n' "${not_yet[*]}"
    [ ${#failed[@]} -eq 0 ] || { printf 'Failed: %s\n' "${failed[*]}"; return 1; }
}

# What other tests need is fetched, and servers are built, while everything is compiled.
fetched=()
fetch() {
    "$@" &
    fetched+=($!)
}
fetch tools/python-env.sh "$target/venv"
fetch tools/node-env.sh "$target/node"
if [ "$(id -u)" = 0 ]; then
    fetch tests/package/clean_root.sh "$target/clean-root" # the package's
    fetch tools/go-env.sh "$target/servers"                # for deliveries
fi

step "unit and integration tests"
cargo test --workspace --locked --no-fail-fast
[ "${CI:-false}" != true ] || cargo test --workspace --locked --no-run --benches # linted, too
# Beside the end-to-end tests, which measure times, nothing shall run.
for job in "${fetched[@]}"; do wait "$job"; done

step "end-to-end tests"
if [ "$(id -u)" = 0 ]; then
    end_to_end
elif sudo -n true 2>/dev/null; then
    as_root=(sudo -E)
    end_to_end
else
    left_out+=("the end-to-end tests: they need root; run sudo make test")
fi

# These wait for most of their time: they run beside all that follows.
deliveries=
if [ "$(id -u)" = 0 ]; then
    "$target/venv/bin/python" tests/delivery/test_delivery.py --dwell "$target/debug/dwell" --programs "$DWELL_TEST_PROGRAMS" \
        --servers "$target/servers" >"$target/deliveries.log" 2>&1 </dev/null &
    deliveries=$!
    trap wait EXIT # Else its servers would be left behind.
fi

step "the recording read by DuckDB and pyarrow"
"$target/venv/bin/python" tests/recording/test_queries.py

step "the tutorial, command by command"
if [ "$(id -u)" = 0 ]; then
    python3 tests/tutorial/test_tutorial.py "$target/debug/dwell"
else
    left_out+=("the tutorial's commands: they need root")
fi

step "the package, installed in a clean root"
if [ "$(id -u)" = 0 ]; then
    tests/package/test_package.sh "$target/debug/dwell" "$target/clean-root"
else
    left_out+=("the package's test: it needs root")
fi

step "the page, in a browser"
node --test tests/page/model.test.js
if [ "$(id -u)" = 0 ]; then
    DWELL="$target/debug/dwell" PROGRAMS="$DWELL_TEST_PROGRAMS" MODULES="$target/node/node_modules" node --test tests/page/browser.test.js
else
    left_out+=("the page in a browser: making a recording needs root")
fi

step "exports read by other tools"
"$target/venv/bin/python" tests/other-tools/test_exports.py --dwell "$target/debug/dwell" --modules "$target/node/node_modules"

step "recordings delivered to servers, and by the agent"
if [ -n "$deliveries" ]; then
    wait "$deliveries" || { cat "$target/deliveries.log"; exit 1; }
    cat "$target/deliveries.log"
else
    left_out+=("deliveries and the agent: making recordings needs root")
fi

if [ ${#left_out[@]} -gt 0 ]; then
    printf '\nLeft out: %s\n' "${left_out[@]}"
    [ "${CI:-false}" != true ] || exit 1
fi

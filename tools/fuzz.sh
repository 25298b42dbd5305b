#!/usr/bin/env bash
# Runs every fuzz target for some seconds (default 60 each), as many at a time as there are processors.
# Needs cargo-fuzz; the stable compiler does: RUSTC_BOOTSTRAP lets it take the sanitizer flags that
# cargo-fuzz passes.
#   tools/fuzz.sh [SECONDS]
# In CI (CI=true) the fuzzer's dice are always the same: what it finds there is not a matter of luck. And the address
# sanitizer is left out, which has little to find in parsers without unsafe code and would take half as long again to compile.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
sanitizer=address
dice=()
if [ "${CI:-false}" = true ]; then
    sanitizer=none
    dice=(-seed=1 -entropic=0 -runs=100000)
fi
target=${CARGO_TARGET_DIR:-$PWD/target}
# Unoptimised: it only calls the compiler, and is itself compiled in half of the time.
command -v cargo-fuzz >/dev/null || CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --quiet --debug cargo-fuzz

# What a target starts from: small real programs, where there are some.
seeds() {
    case "$1" in
        elf | plan) find "${DWELL_TEST_PROGRAMS:-$target/programs}" -maxdepth 1 -type f -size -64k 2>/dev/null ;;
    esac
}

# A program, a library, where the library begins, and level 1.
merge_seed() {
    local size
    size=$(stat -c %s "$1")
    cat "$1" "$2"
    # shellcheck disable=SC2059 # the bytes are the format
    printf "$(printf '\\x%02x' $((size & 255)) $((size >> 8 & 255)) $((size >> 16 & 255)) 0 1)"
}

# Makes a target's corpus.
prepare() {
    local name=$1 corpus=fuzz/corpus/$1 program file
    mkdir -p "$corpus"
    [ "$name" != static_probes ] || printf '\0%s\n%s' '-4@%eax 8@-8(%rbp) 4@$5 8f@%xmm0' \
        '1@(%rax,%rbx,8) 8@counter+8(%rip) -1@%ah 8@16(,%rdi,4)' >"$corpus/shapes"
    if [ "$name" = import ]; then
        cp crates/dwell-import/tests/fixtures/switches.perf.data "$corpus"
        printf 'main;work 3\nmain;read_[k] 1.5\na;[blocked: lock futex] 2\n' >"$corpus/folded"
        # A profile with one sample: types, sample, location, function, strings.
        printf '\x0a\x04\x08\x01\x10\x02\x12\x06\x0a\x01\x01\x12\x01\x07\x22\x06\x08\x01\x22\x02\x08\x01\x2a\x04\x08\x01\x10\x03\x32\x00\x32\x03cpu\x32\x0bnanoseconds\x32\x01f' >"$corpus/pprof"
    fi
    if [ "$name" = merge ]; then
        for program in globals globals-bare globals-split; do
            file=${DWELL_TEST_PROGRAMS:-$target/programs}/$program
            [ ! -f "$file" ] || merge_seed "$file" "${file%/*}/libglobals.so" >"$corpus/$program"
        done
    fi
    seeds "$name" | xargs -r cp -t "$corpus"
}

# All that it says is shown only if it fails, so that what several say does not mix.
fuzz() {
    local name=$1 output
    if output=$(cargo fuzz run --sanitizer "$sanitizer" "$name" "fuzz/corpus/$name" -- -max_total_time="$seconds" -rss_limit_mb=2048 \
        -timeout=10 -max_len=65536 -print_final_stats=1 "${dice[@]}" 2>&1); then
        echo "fuzz $name:$(sed -n 's/^stat::\(number_of_executed_units\|peak_rss_mb\): */ \1 /p' <<<"$output" | paste -sd,)"
    else
        printf '== fuzz %s failed\n%s\n' "$name" "$output"
        return 1
    fi
}

export RUSTC_BOOTSTRAP=1
names=()
for target_file in fuzz/fuzz_targets/*.rs; do
    names+=("$(basename "$target_file" .rs)")
    prepare "${names[-1]}"
done
# All at once: what they have in common is compiled once, and the last ones' linking goes side by side.
cargo fuzz build --sanitizer "$sanitizer"
failed=()
while [ ${#names[@]} -gt 0 ]; do
    # One for each processor at a time.
    running=()
    for name in "${names[@]:0:$(nproc)}"; do
        fuzz "$name" &
        running+=("$name $!")
    done
    names=("${names[@]:${#running[@]}}")
    for job in "${running[@]}"; do
        wait "${job#* }" || failed+=("${job% *}")
    done
done
[ ${#failed[@]} -eq 0 ] || { echo "fuzz: failed: ${failed[*]}" >&2; exit 1; }

#!/usr/bin/env bash
# Runs every test. The end-to-end tests load eBPF programs and need root: they are marked
# #[ignore = "needs root"], and run here as root, or through sudo where it asks for no password.
# What is left out is named; in CI (CI=true) leaving something out is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
export DWELL_TEST_PROGRAMS=${DWELL_TEST_PROGRAMS:-$target/programs}
privileged_packages=(--package dwell --package dwell-collector)
left_out=()

step() { printf '\n== %s\n' "$*"; }

# One at a time: they measure times, and the machine may have two processors.
end_to_end() { cargo test --locked "${privileged_packages[@]}" -- --ignored --test-threads=1; }

step "unit and integration tests"
cargo test --workspace --locked

step "end-to-end tests"
if [ "$(id -u)" = 0 ]; then
    end_to_end
elif sudo -n true 2>/dev/null; then
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${host}_RUNNER=sudo -E"
    end_to_end
else
    left_out+=("the end-to-end tests: they need root; run sudo make test")
fi

step "the recording read by DuckDB and pyarrow"
tools/python-env.sh "$target/venv"
"$target/venv/bin/python" tests/recording/test_queries.py

if [ ${#left_out[@]} -gt 0 ]; then
    printf '\nLeft out: %s\n' "${left_out[@]}"
    [ "${CI:-false}" != true ] || exit 1
fi

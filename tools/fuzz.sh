#!/usr/bin/env bash
# Runs every fuzz target for some seconds (default 60 each). Needs a nightly toolchain and cargo-fuzz.
#   tools/fuzz.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
if [[ $(rustup toolchain list 2>/dev/null) != *nightly* ]]; then
    if [ "${CI:-false}" != true ]; then
        echo "fuzz: no nightly toolchain; install one with: rustup toolchain install nightly" >&2
        exit 1
    fi
    rustup toolchain install nightly --profile minimal
fi
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz
shopt -s nullglob
targets=(fuzz/fuzz_targets/*.rs)
if [ ${#targets[@]} -eq 0 ]; then
    echo "fuzz: no targets in fuzz/fuzz_targets" >&2
    exit 1
fi
for target in "${targets[@]}"; do
    name=$(basename "$target" .rs)
    echo "== fuzz $name, $seconds s"
    cargo +nightly fuzz run "$name" -- -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10
done

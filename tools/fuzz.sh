#!/usr/bin/env bash
# Runs every fuzz target for some seconds (default 60 each). Needs cargo-fuzz; the stable compiler does:
# RUSTC_BOOTSTRAP lets it take the sanitizer flags that cargo-fuzz passes.
#   tools/fuzz.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
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
    RUSTC_BOOTSTRAP=1 cargo fuzz run "$name" -- -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10
done

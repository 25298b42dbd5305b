#!/usr/bin/env bash
# Checks the dependencies against deny.toml with cargo-deny. Where that is missing, CI installs it
# (about a minute on two processors) and a person is told how; the licences and the layers are held
# by crates/dwell/tests/layers.rs on every `cargo test` anyway.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
if ! command -v cargo-deny >/dev/null && [ "${CI:-false}" = true ]; then
    # Unoptimised: it runs for a second, and compiles in half of the time.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --quiet --debug "cargo-deny@$version"
fi
if command -v cargo-deny >/dev/null; then
    # The advisories need a database from the network and change without us: not part of a build.
    cargo deny --locked check --hide-inclusion-graph bans licenses sources
else
    echo "cargo-deny is not installed and its check left out; install it with: cargo install --locked cargo-deny"
fi

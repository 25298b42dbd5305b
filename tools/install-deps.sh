#!/usr/bin/env bash
# Installs what building, demonstrating and testing dwell needs, and nothing that is there already.
# Quick when nothing is missing. Debian and Ubuntu; elsewhere it says what to install.
#
#   tools/install-deps.sh [build|all]     build: to compile dwell; all (default): for the tests too
set -euo pipefail
what=${1:-all}
missing=()      # packages to install
unavailable=()  # optional things this distribution does not package

# `type -P`, not `command -v`: a function here may bear the name.
has() { type -P "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/usr/games/$1" ]; }
has_apt() { has apt-get && has dpkg-query; }
# No `| grep -q` in these: it may end before its left side, which pipefail takes for a failure.
packaged() { [[ $(apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]; }
installed() { [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]; }

# command NAME PACKAGE…: the first of the packages that exists gives the command.
command_from() {
    has "$1" && return
    local name=$1 package
    shift
    for package in "$@"; do
        if packaged "$package"; then missing+=("$package"); return; fi
    done
    unavailable+=("$name ($*)")
}

# library PACKAGE…: what has no command to look for, by the name of the first of the packages that exists.
library() {
    local package
    for package in "$@"; do
        if installed "$package"; then return; fi
    done
    for package in "$@"; do
        if packaged "$package"; then missing+=("$package"); return; fi
    done
    unavailable+=("$1")
}

# clang 16 or newer compiles the eBPF programs; Debian 12's plain `clang` is 14.
clang() {
    local version
    for version in 21 20 19 18 17 16; do
        if has "clang-$version"; then
            command_from "llvm-strip-$version" "llvm-$version"
            return
        fi
    done
    if has clang && [ "$(command clang -dumpversion | cut -d. -f1)" -ge 16 ]; then return; fi
    for version in 19 18 17 16; do
        if packaged "clang-$version"; then missing+=("clang-$version" "llvm-$version"); return; fi
    done
    unavailable+=("clang 16 or newer")
}

build_needs() {
    clang
    command_from gcc gcc
    command_from make make
    command_from pkg-config pkg-config
    library libc6-dev
    library libelf-dev
    library zlib1g-dev
    command_from dpkg-shlibdeps dpkg-dev
    command_from xz xz-utils
}

test_needs() {
    command_from g++ g++
    command_from strip binutils
    command_from musl-gcc musl-tools
    command_from go golang-go
    command_from gdb gdb
    command_from dwz dwz
    command_from bpftrace bpftrace
    library systemtap-sdt-dev
    library libglib2.0-0t64 libglib2.0-0
    library libqt5core5t64 libqt5core5a
    library libtbb-dev
    library libomp-dev
    command_from eu-stack elfutils
    command_from perf linux-perf linux-tools-generic
    command_from offcputime libbpf-tools
    command_from stockfish stockfish
    command_from redis-server redis-server
    command_from redis-benchmark redis-tools
    command_from memcached memcached
    command_from mariadbd mariadb-server
    command_from sysbench sysbench
    command_from nginx nginx-light
    has pgbench || [ -d /usr/lib/postgresql ] || missing+=(postgresql)
    command_from sqlite3 sqlite3
    command_from perl perl
    command_from qemu-system-x86_64 qemu-system-x86
    command_from busybox busybox-static
    command_from cpio cpio
    command_from tmux tmux
    command_from debootstrap debootstrap
    command_from python3 python3
    command_from node nodejs
    command_from npm npm
    command_from chromium chromium
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
}

# Daemons that are only wanted as programs to measure must not start by themselves.
without_starting_daemons() {
    local policy=/usr/sbin/policy-rc.d
    if [ -e $policy ]; then "$@"; return; fi
    trap '$sudo rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
    $sudo chmod +x $policy
    "$@"
    $sudo rm -f $policy
}

apt_install() {
    echo "install-deps: installing ${missing[*]}"
    without_starting_daemons $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# rust-version in Cargo.toml is newer than what stable distributions package.
rust_is_new_enough() {
    has cargo || return 1
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
    found=$(cargo --version 2>/dev/null | cut -d' ' -f2)
    printf '%s\n%s\n' "$wanted" "$found" | sort --version-sort --check=quiet
}

rust() {
    [ -d "$HOME/.cargo/bin" ] && PATH="$HOME/.cargo/bin:$PATH"
    if ! has rustup && ! rust_is_new_enough && has_apt && packaged rustup; then
        missing=(rustup) && apt_install
    fi
    if has rustup; then
        rust_is_new_enough || rustup toolchain install stable --no-self-update --profile minimal --component rustfmt,clippy
        rust_is_new_enough || rustup default stable
        if ! has rustfmt || ! has cargo-clippy; then rustup component add rustfmt clippy; fi
        # The agent, which runs inside targets, is compiled for bare x86-64: it must not use SSE.
        if ! rustup target list --installed | grep x86_64-unknown-none >/dev/null; then
            rustup target add x86_64-unknown-none
        fi
    fi
    if ! rust_is_new_enough; then
        echo "install-deps: dwell needs Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml") or newer; install it with rustup (https://rustup.rs), then run this again" >&2
        exit 1
    fi
}

if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi
survey() {
    missing=() unavailable=()
    build_needs
    [ "$what" = build ] || test_needs
}

# A machine that never ran apt-get update knows no package at all.
lists_are_empty() { ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

if has_apt; then
    survey
    if [ ${#missing[@]} -gt 0 ] || { [ ${#unavailable[@]} -gt 0 ] && lists_are_empty; }; then
        if [ -n "$sudo" ] && ! has sudo; then
            echo "install-deps: some packages are missing and this is not root; run as root: $0 $what" >&2
            exit 1
        fi
        $sudo apt-get update -qq
        survey
        [ ${#missing[@]} -eq 0 ] || apt_install
    fi
else
    echo "install-deps: no apt-get here. Install clang (16 or newer), llvm, make, gcc, pkg-config and the static" \
        "libelf and zlib; for the tests also stockfish, redis, memcached, mariadb, sysbench, nginx, postgresql, sqlite, gdb, elfutils, perf, musl-gcc and go." >&2
fi
rust
if [ ${#unavailable[@]} -gt 0 ]; then
    echo "install-deps: not packaged here, what needs it is left out: ${unavailable[*]}"
fi

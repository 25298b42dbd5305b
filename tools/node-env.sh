#!/usr/bin/env bash
# Installs the packages of tests/other-tools/package-lock.json, once: the programs that read dwell's exports.
#   tools/node-env.sh FOLDER
set -euo pipefail
source="$(cd "$(dirname "$0")/../tests/other-tools" && pwd)"
if cmp --quiet "$source/package-lock.json" "$1/package-lock.json" && [ -e "$1/.installed" ]; then exit 0; fi
mkdir -p "$1"
cp "$source/package.json" "$source/package-lock.json" "$1"
# Node.js has certificates of its own; the system's are what other programs here trust.
system=/etc/ssl/certs/ca-certificates.crt
if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -e "$system" ]; then export NODE_EXTRA_CA_CERTS=$system; fi
# profiler-cli says that it wants Node.js 24; what is asked of it here works with 18 and newer.
npm ci --prefix "$1" --loglevel error --no-audit --no-fund --ignore-scripts
touch "$1/.installed"

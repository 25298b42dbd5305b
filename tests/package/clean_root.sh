#!/usr/bin/env bash
# Makes a root with nothing but this distribution's smallest system, once. Needs root; takes one to two minutes.
#
#   tests/package/clean_root.sh FOLDER
set -euo pipefail
folder=$1
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
[ "$(cat "$folder/complete" 2>/dev/null)" != "$suite" ] || exit 0
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
rm -rf --one-file-system "$folder"
mkdir -p "$folder"
debootstrap --variant=minbase "$suite" "$folder/root" "$mirror" >"$folder/log" || { tail -n 5 "$folder/log" >&2; exit 1; }
rm -rf "$folder"/root/var/cache/apt/archives/*.deb
echo "$suite" >"$folder/complete"

#!/usr/bin/env bash
# Packs what a virtual machine runs into IMAGE: busybox, init, the scenarios beside this script, and the
# programs given, each with the shared libraries it is linked with.
#
#   tests/vm/initramfs.sh IMAGE PROGRAM...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
image=$1
shift
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

mkdir -p "$root"/{bin,dev,proc,sys,tmp,scenarios}
install -m 755 "$here/init" "$root/init"
install -m 644 "$here"/scenarios/*.sh "$root/scenarios/"

for program in "$(command -v busybox)" "$@"; do
    install -m 755 "$program" "$root/bin/"
    strip --strip-debug "$root/bin/$(basename "$program")"
    # `libc.so.6 => /lib/… (0x…)` and `/lib64/ld-linux… (0x…)`; a static program has none.
    (ldd "$program" 2>/dev/null || true) | sed -n 's|^[^/]*\(/[^ ]*\) (0x.*|\1|p' | while read -r library; do
        install -D -m 755 "$library" "$root$library"
    done
done

(cd "$root" && find . | cpio --quiet --create --format=newc) >"$image.new"
mv "$image.new" "$image"

#!/usr/bin/env bash
# Packages a dwell that is built and installs the package in a clean root of this distribution, where it has to record. Needs root.
#
#   tests/package/test_package.sh DWELL FOLDER      FOLDER: see clean_root.sh
set -euo pipefail
dwell=$(realpath "$1")
clean=$(realpath "$2")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
fail() { echo "test_package: $*" >&2; exit 1; }

# The same input makes the same bytes.
tools/package.sh "$dwell" "$work/a" >"$work/made" &
tools/package.sh "$dwell" "$work/b" >/dev/null
wait $! || fail "the package cannot be made"
mapfile -t made <"$work/made"
for file in "${made[@]}"; do
    cmp "$file" "$work/b/${file##*/}" || fail "${file##*/} differs from one making to the next"
done
contents=$(dpkg-deb --contents "${made[0]}")
for path in usr/bin/dwell usr/include/dwell/sdt.h usr/lib/systemd/system/dwell-boost.service usr/lib/systemd/system/dwell-agent.service \
    usr/share/man/man1/dwell.1.gz usr/share/man/man1/dwell-boost-daemon.1.gz usr/share/dwell/scripts/syscalls.d \
    usr/share/bash-completion/completions/dwell usr/share/zsh/vendor-completions/_dwell \
    usr/share/fish/vendor_completions.d/dwell.fish usr/share/doc/dwell/changelog.gz usr/share/doc/dwell/copyright; do
    [[ $contents == *" ./$path"* ]] || fail "the package has no $path"
done
tar -xzf "${made[1]}" -C "$work"
"$work"/dwell-*/bin/dwell --version >/dev/null || fail "the tarball's dwell does not start"

cat >"$work/try.sh" <<'END'
set -eu
dpkg --install /tmp/dwell.deb >/dev/null
cd /tmp
dwell -o try.dwell -- sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.2' 2>answer
grep "on CPU" answer >/dev/null
dwell report --json try.dwell >try.json
dwell doctor >doctor
dpkg --purge dwell >/dev/null
test -z "$(find /usr -name '*dwell*')"
END
# The clean root stays clean: what is written lies over it. All mounts are gone with their namespace.
mkdir "$work/over"
unshare --mount --propagation private bash -euc '
    mount -t tmpfs tmpfs "$2/over"
    mkdir "$2/over/upper" "$2/over/work" "$2/over/root"
    root=$2/over/root
    mount -t overlay -o "lowerdir=$1,upperdir=$2/over/upper,workdir=$2/over/work" overlay "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    cp "$3" "$root/tmp/dwell.deb"
    cp "$2/try.sh" "$root/tmp"
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh /tmp/try.sh ||
        { cat "$root/tmp/answer"; exit 1; }
    cp "$root/tmp/try.json" "$2"
' - "$clean/root" "$work" "${made[0]}" || fail "the installed dwell does not record"
python3 - "$work/try.json" <<'END'
import json, sys
total = json.load(open(sys.argv[1]))["total"]
states = sum(total[k] for k in ("running_ns", "runnable_ns", "stolen_ns", "blocked_ns", "lost_ns"))
assert abs(states - total["lifetime_ns"]) <= 0.001 * total["lifetime_ns"], total
assert total["running_ns"] > 10_000_000 and total["blocked_by_reason_ns"]["sleep"] > 190_000_000, total
END
echo "packaged, installed in a clean root, recorded, removed"

#!/usr/bin/env bash
# Makes a .deb and a tarball of a dwell that is built: binary, manual pages, completions, the header of static probes,
# systemd units, scripts, documents. Prints both paths. The same input makes the same bytes.
#
#   tools/package.sh DWELL FOLDER
set -euo pipefail
dwell=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The time of what was changed last, for the files in the packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/dwell

install_tree() {
    local share=$root/usr/share
    install -D --strip "$dwell" "$root/usr/bin/dwell"
    install -Dm644 -t "$root/usr/include/dwell" include/dwell/*.h
    install -Dm644 -t "$root/usr/lib/systemd/system" crates/dwell/*.service
    install -Dm644 -t "$share/dwell/scripts" scripts/*.d
    install -Dm644 -t "$share/doc/dwell" README.md docs/*.md
    install -d "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
        "$share/fish/vendor_completions.d"
    "$dwell" man --to "$share/man/man1"
    "$dwell" completions bash >"$share/bash-completion/completions/dwell"
    "$dwell" completions zsh >"$share/zsh/vendor-completions/_dwell"
    "$dwell" completions fish >"$share/fish/vendor_completions.d/dwell.fish"
    gzip -9n "$share"/man/man1/*
    gzip -9nc CHANGELOG.md >"$share/doc/dwell/changelog.gz"
    {
        printf 'dwell is licensed under the MIT licence or, at your choice, the Apache licence 2.0.\n\n'
        cat LICENSE-MIT LICENSE-APACHE
    } >"$share/doc/dwell/copyright"
}

# What the binary needs of the distribution, as its own tools tell it.
depends() {
    mkdir -p "$work/debian"
    printf 'Source: dwell\n\nPackage: dwell\nArchitecture: amd64\n' >"$work/debian/control"
    # It always warns that the binary is not where a Debian build would have it, so what it says is shown when it fails.
    (cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/dwell" 2>said || { cat said >&2; exit 1; }) |
        sed -n 's/^shlibs:Depends=//p'
}

# In KiB, as dpkg-gencontrol counts: what a file system takes for the same file can differ from one moment to the next.
installed_size() {
    find "$root/usr" -printf '%y %s\n' | awk '{ sum += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print sum }'
}

control() {
    local size depends
    size=$(installed_size)
    depends=$(depends)
    cat <<END
Package: dwell
Version: $version
Architecture: amd64
Maintainer: The dwell authors <dwell@example.org>
Installed-Size: $size
Depends: $depends
Section: devel
Priority: optional
Description: shows where a program's wall-clock time goes
 One recording tells where a program's time goes, on and off the processor,
 why, and what can be done about it: a wall-clock profile without frame
 pointers, locks and who held them, what memory costs, findings and
 predictions, probes in D, and programs that are merged with their libraries
 so that they start faster.
END
}

set_times() { find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +; }

install_tree
deb=$out/dwell_${version}_amd64.deb
install -d "$root/DEBIAN"
control >"$root/DEBIAN/control"
set_times "$root"
# A higher level takes thrice the time for an eighth of the size.
dpkg-deb --root-owner-group -Zxz -z2 --build "$root" "$deb" >/dev/null

# The tarball has the same tree, for /usr/local or anywhere else.
tarball=$out/dwell-$version-x86_64-linux.tar.gz
rm -r "$root/DEBIAN"
mv "$root/usr" "$work/dwell-$version"
set_times "$work/dwell-$version"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -c "dwell-$version" | gzip -9n >"$tarball"
printf '%s\n' "$deb" "$tarball"

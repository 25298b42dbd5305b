#!/usr/bin/env bash
# Fetches a distribution's kernel to boot in a virtual machine and prints the path of its image. It is
# taken from the package lists that apt has, unpacked below FOLDER and not installed; a second call
# finds it there.
#
#   tests/vm/kernel.sh FOLDER [METAPACKAGE]     default: Debian's linux-image-cloud-amd64, else Ubuntu's
#                                               linux-image-virtual
set -euo pipefail
folder=$1
metas=("${2:-linux-image-cloud-amd64}" ${2:-linux-image-virtual})

image_below() { compgen -G "$1/boot/vmlinuz-*" | head -n 1; }

# A metapackage depends on the image of the version that is current.
package=
for meta in "${metas[@]}"; do
    [ -n "$package" ] || package=$(apt-cache depends "$meta" 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
done
if [ -z "$package" ]; then
    echo "kernel.sh: apt knows none of ${metas[*]}; run apt-get update" >&2
    exit 1
fi
if ! [ -e "$folder/$package/complete" ]; then
    rm -rf "${folder:?}/$package"
    mkdir -p "$folder/$package"
    (cd "$folder/$package" && apt-get -o APT::Sandbox::User=root download -qq "$package" >&2 && dpkg-deb -x ./*.deb . && rm -f ./*.deb && rm -rf lib usr)
    touch "$folder/$package/complete"
fi
image_below "$folder/$package"

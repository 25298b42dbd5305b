#!/usr/bin/env bash
# Boots KERNEL with INITRAMFS under QEMU, has init run SCENARIO, and prints what that printed.
# Fails when the scenario fails, crashes the kernel, or takes too long.
#
#   tests/vm/boot.sh KERNEL INITRAMFS SCENARIO MODE
#
# MODE: counting  one processor whose nanoseconds are instructions: the same in every run
#       one       one processor, as fast as it goes
#       two       two processors that really run at a time; the second is off line until the scenario
#                 has attached its programs (QEMU's threads do not see code being patched)
set -euo pipefail
kernel=$1 initramfs=$2 scenario=$3 mode=$4
limit=${DWELL_VM_TIMEOUT:-120}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# no_timer_check: on a busy host the kernel else finds that its timer does not work, and gives up.
options="console=ttyS0 quiet panic=-1 no_timer_check scenario=$scenario"
case $mode in
counting) machine=(-accel tcg,thread=single -smp 1 -icount shift=0,sleep=off) ;;
one) machine=(-accel tcg,thread=single -smp 1) ;;
two) machine=(-accel tcg,thread=multi -smp 2) && options="$options maxcpus=1" ;;
*) echo "boot.sh: no mode $mode" >&2 && exit 2 ;;
esac

# A guest that knows it is one uses locks whose waiters leave no mark in the lock: it must not know.
cpu=max,-hypervisor
status=0
timeout --kill-after=5 "$limit" qemu-system-x86_64 "${machine[@]}" -cpu $cpu -m 1024 -display none \
    -monitor none -net none -no-reboot -kernel "$kernel" -initrd "$initramfs" -append "$options" \
    -serial "file:$folder/console" -serial "file:$folder/result" </dev/null >"$folder/qemu" 2>&1 || status=$?
tr -d '\r' <"$folder/result" 2>/dev/null || true
if [ $status -ne 0 ] || ! grep -q '^== exit 0' "$folder/result"; then
    echo "boot.sh: $scenario ($mode) failed; qemu ended with $status (124: $limit s were not enough)" >&2
    tail -n 40 "$folder/qemu" "$folder/console" >&2
    exit 1
fi

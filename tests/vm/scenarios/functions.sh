# Calls of kernel functions: a program that calls fcntl a known number of times, and functions that cannot
# be traced.
set -e
. /scenarios/common.sh

part kernel
uname -r

start_setfl 1 5000
start_dwell functions __x64_sys_fcntl _raw_spin_lock -p $setfl --json
part said
go
stop_dwell
part counted
cat dwell.out

part page
start_dwell functions __x64_sys_fcntl
go >/dev/null
stop_dwell
cat dwell.out
end_setfl

for name in sched_clock __x64_sys_fcntx vmlinux_has_no_such; do
    part refused $name
    if dwell functions $name 2>&1; then exit 1; fi
done

part doctor
dwell doctor --json || true # it may miss other things; the test looks at one check

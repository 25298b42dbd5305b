# Spin locks of the kernel, on one processor whose nanoseconds are instructions: totals, and what counting
# costs a call of fcntl, which acquires and releases one lock.
set -e
. /scenarios/common.sh

runs() {
    for run in 1 2 3 4 5; do go; done
}

start_setfl 1 1000
part bare
runs

start_dwell functions --spin-locks --json
part filtered
runs
stop_dwell
part filtered counts
cat dwell.out

start_dwell functions --spin-locks --keep-all --json
part unfiltered
runs
stop_dwell
part unfiltered counts
cat dwell.out

start_dwell functions --spin-locks -p $setfl --json
part own
runs
stop_dwell
part own counts
cat dwell.out

start_dwell functions --spin-locks
go >/dev/null
stop_dwell
part page
cat dwell.out

part after
runs
end_setfl

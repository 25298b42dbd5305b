# Two processors fight for one spin lock, or each has its own.
set -e
. /scenarios/common.sh
second=/sys/devices/system/cpu/cpu1/online

for files in apart shared; do
    start_setfl 2 20000 $files
    start_dwell functions --spin-locks -p $setfl --json
    echo 1 >$second
    part $files
    go
    go
    go
    echo 0 >$second
    stop_dwell
    part $files counts
    cat dwell.out
    end_setfl
done

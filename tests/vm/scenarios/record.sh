# A recording of a program that rests, then calls fcntl a known number of times.
set -e
. /scenarios/common.sh

part kernel
uname -r

part said
echo rq | dwell record -q -o r.dwell -- setfl 1 200000

part answer
dwell report r.dwell --json

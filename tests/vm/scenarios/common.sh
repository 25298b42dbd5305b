# What scenarios share. Every part of the output begins with a line `== NAME`.

part() { echo "== $*"; }

# Starts setfl; `go` lets it run once, its answer appears in setfl.out.
start_setfl() {
    rm -f setfl.in setfl.out
    mkfifo setfl.in
    setfl "$@" <setfl.in >setfl.out &
    setfl=$!
    exec 3>setfl.in
    until [ -s setfl.out ]; do usleep 10000; done
}

go() {
    local before
    before=$(wc -l <setfl.out)
    echo r >&3
    until [ "$(wc -l <setfl.out)" -gt "$before" ]; do usleep 10000; done
    tail -n 1 setfl.out
}

end_setfl() {
    exec 3>&-
    wait $setfl
}

# Runs `dwell …` until `stop`; returns when its programs are attached. Its answer goes to dwell.out.
start_dwell() {
    rm -f dwell.out dwell.err # what an earlier one said must not be taken for this one's
    dwell "$@" >dwell.out 2>dwell.err &
    dwell=$!
    until grep -qs counting dwell.err; do
        kill -0 $dwell 2>/dev/null || { cat dwell.err; return 1; }
        usleep 10000
    done
}

stop_dwell() {
    kill -INT $dwell
    wait $dwell || { cat dwell.err; return 1; }
}

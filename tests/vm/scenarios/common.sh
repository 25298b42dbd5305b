# What scenarios share. Every part of the output begins with a line `== NAME`.

part() { echo "== $*"; }

# Starts setfl; `go` lets it run once and prints its answer. Nothing else runs meanwhile.
start_setfl() {
    rm -f setfl.in setfl.out
    mkfifo setfl.in setfl.out
    setfl "$@" <setfl.in >setfl.out &
    setfl=$!
    exec 3>setfl.in 4<setfl.out
    read -r pid <&4
}

go() {
    echo r >&3
    read -r answer <&4
    echo "$answer"
}

end_setfl() {
    exec 3>&- 4<&-
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

#!/usr/bin/env bash
# Builds the servers that recordings are delivered to in the tests, once: an S3 server, a collector of OpenTelemetry, and
# Pyroscope.
#   tools/go-env.sh FOLDER
set -euo pipefail
source="$(cd "$(dirname "$0")/../tests/delivery/collector" && pwd)"
s3=github.com/versity/versitygw/cmd/versitygw@v1.8.0
pyroscope=github.com/grafana/pyroscope@v1.12.0
# Its own go.mod wants the one beside it, which its module does not hold.
pyroscope_api=github.com/grafana/pyroscope/api@v1.1.0
stamp="$1/.servers"
wanted="$s3 $pyroscope $(cat "$source"/* | sha256sum)"
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)

# From version 1.21 on go gets the version that a module wants by itself; for an older one, as distributions have, we do.
newer_go() {
    local module=golang.org/toolchain@v0.0.1-go1.25.0.linux-$(go env GOARCH) tree
    tree=$(go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    [ -n "$tree" ] || return 1
    chmod -R u+wx "$tree/bin" "$tree/pkg/tool"
    export PATH=$tree/bin:$PATH GOTOOLCHAIN=auto
}
case $(go env GOVERSION) in
go1.[0-9] | go1.[0-9].* | go1.1[0-9]* | go1.20*) newer_go ;;
esac

# Made to be built in its repository, and not every version is to be had.
build_pyroscope() {
    local module work=$folder/pyroscope-source
    module=$(go mod download -json "$pyroscope" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    [ -n "$module" ] || return 1
    rm -rf "$work"
    cp -r "$module" "$work"
    chmod -R u+w "$work"
    rm -f "$work"/go.work*
    (
        cd "$work"
        go mod edit -dropreplace=github.com/grafana/pyroscope/api -require="$pyroscope_api"
        go build -mod=mod -o "$folder/pyroscope" ./cmd/pyroscope
    ) || return 1
    rm -rf "$work"
}

# Not optimised, and nothing for a debugger: they serve one test each, and are made in two thirds of the time.
export GOFLAGS="${GOFLAGS:-} '-gcflags=all=-N -l -dwarf=false' '-ldflags=-s -w'"
GOBIN=$folder go install "$s3"
(cd "$source" && go build -o "$folder/collector" .)
build_pyroscope 2>"$folder/pyroscope.log" || echo "go-env: Pyroscope cannot be built here, its test is left out: see $folder/pyroscope.log"
echo "$wanted" >"$stamp"

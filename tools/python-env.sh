#!/usr/bin/env bash
# Makes the virtual environment for the tests written in Python, once.
#   tools/python-env.sh FOLDER
set -euo pipefail
packages=(duckdb==2.0.0 pyarrow==26.0.1 opentelemetry-proto==1.45.2 perfetto==0.59.1 viztracer==1.1.1 chdb-core==26.9.0)
stamp="$1/.packages"
if [ "$(cat "$stamp" 2>/dev/null)" = "${packages[*]}" ]; then exit 0; fi
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
echo "${packages[*]}" > "$stamp"

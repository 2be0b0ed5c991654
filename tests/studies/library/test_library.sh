#!/usr/bin/env bash
# Install the library alone, build the example against it by pkg-config, and hold its answers to the program's.
# Usage: test_library.sh BUILD SOURCE RECKON
set -eu
build=$1 source=$2 reckon=$3
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --component library --prefix "$prefix" >/dev/null
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig:$prefix/lib/$(cc -print-multiarch)/pkgconfig" RECKON_DATA=$source
test "$(pkg-config --modversion reckon)" = "$("$reckon" --version | head -1 | cut -d" " -f2)"
cc -Wall -Wextra -Werror -pthread "$source/tests/studies/library/example.c" $(pkg-config --define-prefix --cflags --libs reckon) -o "$prefix/example"
model=$source/tests/fixtures/models/tiny.json
"$prefix/example" "$model" >"$prefix/out"
cat "$prefix/out"
answer() { # DEVICE SETTING FIELD: as the program says it
    "$reckon" predict "$model" --device "$1" --set "$2" --jobs 1 --json | python3 -c 'import json, sys; print("%.6f" % json.load(sys.stdin)["'"$3"'"])'
}
grep -qx "step of .* on b200: $(answer b200 batch=256 step_ms) ms" "$prefix/out"
for batch in 64 128 256; do
    grep -qx "point batch=$batch on mi350x: $(answer mi350x batch=$batch step_ms) ms, $(answer mi350x batch=$batch gpu_busy_ms) ms of it on the GPU" "$prefix/out"
done
test "$(grep -c '^point batch=128' "$prefix/out")" = 2
test "$(grep '^point batch=128' "$prefix/out" | sort -u | wc -l)" = 1

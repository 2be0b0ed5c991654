#!/bin/sh
# Run every fuzz target of a build folder for SECONDS each: run.sh BUILD [SECONDS [TARGET..]]. New inputs go to
# BUILD/fuzz-corpus; what crashes a target stays in BUILD/fuzz-crashes, and the exit code is 1.
set -u
build=$1
seconds=${2:-600}
[ $# -ge 2 ] && shift 2 || shift 1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$build/fuzz-crashes"
[ $# -gt 0 ] || set -- $(cd "$here/corpus" && ls)
failed=0
for name in "$@"; do
    mkdir -p "$build/fuzz-corpus/$name"
    echo "fuzz_$name, $seconds s"
    log="$build/fuzz-$name.log"
    if ! nice "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 \
        -artifact_prefix="$build/fuzz-crashes/$name-" "$build/fuzz-corpus/$name" "$here/corpus/$name" >"$log" 2>&1; then
        failed=1
        grep -E "^==|ERROR|SUMMARY|Test unit written" "$log"
    fi
    tail -1 "$log"
done
exit $failed

#!/bin/sh
# tests/run_criterion.sh can fail: programs that end as a broken test run would, and the status each must give.
set -u
runner=$(dirname "$0")/../run_criterion.sh
failed=0
expect() { # expect STATUS WHAT SHELL-COMMANDS
    "$runner" sh -c "$3" >/dev/null 2>&1
    status=$?
    if [ "$status" -ne "$1" ]; then
        echo "$2: exit $status instead of $1"
        failed=1
    fi
}
expect 0 "a run that passes" 'echo "Tested: 3 | Passing: 3" >&2'
expect 1 "a failing test" 'echo "Tested: 3 | Passing: 2" >&2; exit 1'
expect 1 "a filter that matches nothing" 'echo "Tested: 0 | Passing: 0" >&2'
expect 1 "a program that never reports" 'exit 0'
expect 1 "a sanitizer report behind a passing run" \
    'echo "Tested: 3" >&2; path=${ASAN_OPTIONS#*log_path=}; echo "ERROR: LeakSanitizer" >"${path%%:*}.42"'
expect 1 "an undefined-behaviour report behind a passing run" \
    'echo "Tested: 3" >&2; path=${UBSAN_OPTIONS#*log_path=}; echo "runtime error" >"${path%%:*}.42"'
RECKON_TEST_STALL=1
export RECKON_TEST_STALL
mark=$(mktemp -u)
expect 0 "a runner that stalls once" "[ -e $mark ] || { touch $mark; sleep 30; }; echo 'Tested: 3' >&2"
rm -f "$mark"
expect 1 "a runner that stalls for ever" "sleep 3; exit 1"
exit $failed

#!/bin/sh
# Run one Criterion program; fail when it fails, when it ran no test, or when a sanitizer or valgrind left a report:
# neither makes a Criterion test fail by itself, because each test is a process of its own.
# RECKON_VALGRIND=1 runs the program under valgrind (make check-deep), for reads of memory that nobody wrote, which
# AddressSanitizer cannot see. Leaks are left to that one: a test that aborts on purpose leaves some.
set -u
log=$(mktemp -d) || exit 1
trap 'rm -rf "$log"' EXIT
if [ -n "${RECKON_VALGRIND:-}" ]; then
    set -- valgrind --quiet --trace-children=yes --leak-check=no --log-file="$log/valgrind.%p" "$@" --timeout 3600
fi
# The runner itself may lose one of its workers and then waits for ever (seen once: a test of 0.01 s, sanitized, after 2 minutes; not in
# 112 further runs): a run not over after RECKON_TEST_STALL seconds is started once more. A test that hangs, hangs again.
run_once()
{
    ASAN_OPTIONS="log_path=$log/asan${ASAN_OPTIONS:+:$ASAN_OPTIONS}" \
        LSAN_OPTIONS="suppressions=$(dirname "$0")/lsan.supp:print_suppressions=0" \
        UBSAN_OPTIONS="print_stacktrace=1:log_path=$log/ubsan${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}" \
        "$@" >"$log/out" 2>&1
}
if [ -n "${RECKON_TEST_STALL:-}" ]; then
    run_once timeout -k 5 "$RECKON_TEST_STALL" "$@"
    status=$?
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then
        echo "run_criterion.sh: no end within $RECKON_TEST_STALL s; once more" >&2
        run_once "$@"
        status=$?
    fi
else
    run_once "$@"
    status=$?
fi
cat "$log/out"
if grep -q 'Tested: 0' "$log/out" || ! grep -q 'Tested: ' "$log/out"; then
    echo "run_criterion.sh: no test ran" >&2
    status=1
fi
for report in "$log"/asan* "$log"/ubsan* "$log"/valgrind*; do
    if [ -s "$report" ]; then
        cat "$report"
        status=1
    fi
done
exit $status

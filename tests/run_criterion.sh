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
ASAN_OPTIONS="log_path=$log/asan${ASAN_OPTIONS:+:$ASAN_OPTIONS}" \
    LSAN_OPTIONS="suppressions=$(dirname "$0")/lsan.supp:print_suppressions=0" \
    UBSAN_OPTIONS="print_stacktrace=1:log_path=$log/ubsan${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}" \
    "$@" >"$log/out" 2>&1
status=$?
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

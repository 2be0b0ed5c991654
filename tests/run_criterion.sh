#!/bin/sh
# Run one Criterion program; fail when it fails, when it ran no test, or when a sanitizer left a report.
set -u
log=$(mktemp -d)
ASAN_OPTIONS="log_path=$log/asan${ASAN_OPTIONS:+:$ASAN_OPTIONS}" UBSAN_OPTIONS="print_stacktrace=1:log_path=$log/ubsan" \
    "$@" >"$log/out" 2>&1
status=$?
cat "$log/out"
if grep -q 'Tested: 0' "$log/out" || ! grep -q 'Tested: ' "$log/out"; then echo "no test ran" >&2; status=1; fi
for report in "$log"/asan* "$log"/ubsan*; do
    if [ -s "$report" ]; then cat "$report"; status=1; fi
done
rm -rf "$log"
exit $status

#!/bin/sh
# same_bytes.sh PROGRAM OTHER: two builds of reckon print the same bytes, whatever compiled them and however many workers ran.
# `make test` gives it the optimised and the sanitized build. Run from the root of the checkout.
set -u
one=$1 other=$2 count=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
while read -r command; do
    # shellcheck disable=SC2086 # words are meant
    "$one" $command --jobs 1 >"$out/one" 2>"$out/error" || { echo "reckon $command:"; cat "$out/error"; exit 1; }
    # shellcheck disable=SC2086
    "$other" $command --jobs 2 >"$out/other" 2>"$out/error" || { echo "$other $command:"; cat "$out/error"; exit 1; }
    [ -s "$out/one" ] || { echo "reckon $command: prints nothing"; exit 1; }
    if ! cmp "$out/one" "$out/other"; then
        echo "reckon $command: $one and $other differ"
        exit 1
    fi
    count=$((count + 1))
done <<'COMMANDS'
kernel gather/random_rows row_bytes=256 table_mb=256 n=4194304 --device h200,mi350x --json
kernel atomic/add_u32 naddr=65536 stride=4 mode=0 --device b200 --json
kernel gemm/mm M=4096 N=4096 K=4096 dtype=bf16 --device mi350x --json
predict tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz --device h200 --json
collective all_reduce 1048576 --node h200x8 --gpus 8 --json
COMMANDS
echo "$count commands, same bytes"

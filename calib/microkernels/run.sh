#!/bin/sh
# Build the microkernels for the GPU of this machine and run them: rows go to OUT/micro.jsonl, remarks to OUT/micro.log.
#   run.sh OUT [--seed N] [--repeats N]        all of it takes a few minutes
#   run.sh --compile-only ARCH [OUT]           no GPU needed: sm_90 with nvcc, gfx90a with hipcc
# Exits 2 without a GPU or compiler; 3 when a kernel's own check failed (its rows say so).
set -u
here=$(cd "$(dirname "$0")" && pwd)
programs="launch latency bandwidth gather atomics lds arithmetic sparse copies peers power"

fail() {
    echo "microkernels: $1" >&2
    exit 2
}

compiler=
find_compiler() { # of a given architecture, or of the GPU that is here
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
    hipcc=$(command -v hipcc || ls /opt/rocm/bin/hipcc 2>/dev/null || true)
    case $1 in
    gfx*) compiler=$hipcc ;;
    *) compiler=$nvcc ;;
    esac
    [ -n "$compiler" ] || fail "no compiler for $1: hipcc (ROCm) for AMD, nvcc (CUDA 12 or 13) for NVIDIA"
}

build() { # architecture, folder
    failed=0
    pids=
    for p in $programs; do
        case $1 in
        gfx*) "$compiler" --offload-arch="$1" -O3 -std=c++17 -I"$here/../.." -o "$2/$p" "$here/$p.hip.cpp" -ldl 2>"$2/$p.err" & ;;
        *) "$compiler" -arch="$1" -O3 -std=c++17 -I"$here/../.." -x cu -o "$2/$p" "$here/$p.hip.cpp" -ldl 2>"$2/$p.err" & ;;
        esac
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || failed=1
    done
    if [ $failed -ne 0 ]; then
        cat "$2"/*.err >&2
        fail "a program does not build with $compiler for $1"
    fi
    rm -f "$2"/*.err
}

if [ "${1:-}" = --compile-only ]; then
    [ $# -ge 2 ] || fail "--compile-only needs an architecture, as sm_90 or gfx90a"
    find_compiler "$2"
    folder=${3:-$(mktemp -d)}
    mkdir -p "$folder" || fail "$folder: cannot be made"
    build "$2" "$folder"
    echo "built for $2: $programs"
    exit 0
fi
[ $# -ge 1 ] || fail "where to put the results? run.sh OUT [--seed N] [--repeats N]"
out=$1
shift
mkdir -p "$out" || fail "$out: cannot be made"
if [ -e /dev/kfd ]; then
    arch=$(/opt/rocm/bin/rocm_agent_enumerator 2>/dev/null | grep -m1 -v gfx000 || rocm_agent_enumerator 2>/dev/null | grep -m1 -v gfx000)
    [ -n "$arch" ] || fail "/dev/kfd is there, but rocm_agent_enumerator names no GPU"
elif nvidia-smi -L >/dev/null 2>&1; then
    arch=native
else
    fail "no GPU on this machine (neither /dev/kfd nor nvidia-smi -L finds one)"
fi
find_compiler "$arch"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
begin=$(date +%s)
build "$arch" "$folder"
{
    echo "$(date -u +%Y-%m-%dT%H:%MZ) built for $arch by $compiler in $(($(date +%s) - begin)) s"
    "$compiler" --version | tail -2
    nvidia-smi --query-gpu=name,driver_version,vbios_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv 2>/dev/null
    rocm-smi --showdriverversion --showproductname 2>/dev/null
} >"$out/micro.log"
: >"$out/micro.jsonl"
code=0
for p in $programs; do
    start=$(date +%s)
    timeout 120 "$folder/$p" "$@" >>"$out/micro.jsonl" 2>>"$out/micro.log"
    status=$?
    echo "$p: exit $status, $(($(date +%s) - start)) s" >>"$out/micro.log"
    [ $status -eq 0 ] || code=3
done
echo "$(wc -l <"$out/micro.jsonl") rows in $(($(date +%s) - begin)) s: $out/micro.jsonl" >&2
exit $code

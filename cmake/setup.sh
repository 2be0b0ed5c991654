#!/usr/bin/env bash
# Install what the build and the tests need and this machine lacks. Debian 12; silent when nothing is missing.
set -eu
packages=(
    gcc libc6-dev cmake ninja-build pkg-config git
    libcjson-dev libyajl-dev zlib1g-dev libzstd-dev libprotobuf-c-dev protobuf-c-compiler libgsl-dev libsimgrid-dev
    libsqlite3-dev libopenmpi-dev openmpi-bin
    libcriterion-dev python3 python3-jsonschema
    chromium # opens the pages of tests/reports
)
case "${1:-}" in
    "") ;;
    --lint) packages+=(clang clang-format clang-tidy) ;;
    --deep) packages+=(valgrind) ;;
    --coverage) packages+=(gcovr) ;;
    *) echo "setup.sh: unknown argument '$1'; valid: --lint, --deep, --coverage" >&2; exit 1 ;;
esac

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ]; then
    as_root=(env)
elif command -v sudo >/dev/null; then
    as_root=(sudo env)
else
    echo "setup.sh: not root and no sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "setup.sh: no apt-get on this machine; install the equivalents of: ${missing[*]}" >&2
    exit 1
fi
echo "installing ${missing[*]}"
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "setup.sh: apt-get could not install: ${missing[*]}" >&2
    exit 1
fi

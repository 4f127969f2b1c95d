#!/bin/sh
# Runs ctest over the whole library, Go included, with one sanitizer at a time:
#
#   capi/testdata/sanitize.sh address   C and Go under AddressSanitizer and UBSan
#   capi/testdata/sanitize.sh race      Go under the race detector
#
# For ctest core is the scripted one, as in `go test ./capi`. `address` then runs TestReal
# too, with the real core and real servers.
set -eu
kind=${1:?usage: sanitize.sh address|race}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

# asan FILE FLAGS...: builds the library under AddressSanitizer.
asan() {
  file=$1
  shift
  go build -asan "$@" -buildmode=c-shared \
    -ldflags "-extldflags \"-Wl,--version-script=$root/capi/mcprt.map -Wl,-soname,libmcprt.so.0\"" \
    -o "$file" ./capi
}

# link FLAGS...: builds ctest against what was built before.
link() {
  "${CC:-gcc}" -std=gnu11 -g -O1 -pthread -Iinclude capi/testdata/ctest.c "$@" -o "$work/ctest"
}

case $kind in
address)
  flags='-fsanitize=address,undefined -fno-sanitize-recover=all'
  # Leaks are valgrind's: here the Go runtime keeps memory that only it knows.
  export CGO_CFLAGS="-O1 -g $flags" CGO_LDFLAGS="$flags" ASAN_OPTIONS=detect_leaks=0
  asan "$work/libmcprt.so.0" -tags mcprt_scripted
  # shellcheck disable=SC2086
  link $flags "$work/libmcprt.so.0" -Wl,-rpath,"$work"
  ;;
race)
  # An archive in a program at fixed addresses: the detector's shadow memory has fixed
  # places too, and a shared library may lie where it cannot follow.
  go build -race -tags mcprt_scripted -buildmode=c-archive -o "$work/libmcprt.a" ./capi
  link -no-pie "$work/libmcprt.a" -lm
  export GORACE='halt_on_error=1 exitcode=66'
  ;;
*)
  echo "sanitize.sh: no such sanitizer: $kind" >&2
  exit 2
  ;;
esac
CTEST_GO=1 CTEST_SCALE=${CTEST_SCALE:-2} "$work/ctest"

if [ "$kind" = address ]; then
  mkdir "$work/real"
  asan "$work/real/libmcprt.so.0"
  # The test itself is built as always; only the library and the C program are not.
  env -u CGO_CFLAGS -u CGO_LDFLAGS MCPRT_TEST_LIBRARY="$work/real/libmcprt.so.0" MCPRT_TEST_CFLAGS="$flags" \
    go test -count=1 -run '^TestReal$' ./capi
fi

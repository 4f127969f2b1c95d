#!/bin/sh
# Runs ctest over the whole library, Go included, with one sanitizer at a time:
#
#   capi/testdata/sanitize.sh address   C and Go under AddressSanitizer and UBSan
#   capi/testdata/sanitize.sh race      Go under the race detector
#
# core is the scripted one, as in `go test ./capi`.
set -eu
kind=${1:?usage: sanitize.sh address|race}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-gcc}
fixed=
cd "$root"

case $kind in
address)
  flags='-fsanitize=address,undefined -fno-sanitize-recover=all'
  # Leaks are valgrind's: here the Go runtime keeps memory that only it knows.
  export CGO_CFLAGS="-O1 -g $flags" CGO_LDFLAGS="$flags" ASAN_OPTIONS=detect_leaks=0
  go_flags=-asan
  ;;
race)
  flags=
  export GORACE='halt_on_error=1 exitcode=66'
  # Its shadow memory has fixed places, which address randomisation may have taken.
  fixed="setarch -R"
  go_flags=-race
  ;;
*)
  echo "sanitize.sh: no such sanitizer: $kind" >&2
  exit 2
  ;;
esac

go build "$go_flags" -tags mcprt_scripted -buildmode=c-shared \
  -ldflags "-extldflags \"-Wl,--version-script=$root/capi/mcprt.map -Wl,-soname,libmcprt.so.0\"" \
  -o "$work/libmcprt.so.0" ./capi
# shellcheck disable=SC2086
"$cc" -std=gnu11 -g -O1 -pthread $flags -Iinclude capi/testdata/ctest.c "$work/libmcprt.so.0" \
  -Wl,-rpath,"$work" -o "$work/ctest"
CTEST_GO=1 CTEST_SCALE=${CTEST_SCALE:-2} $fixed "$work/ctest"

#!/bin/sh
# Builds libmcprt-stub.so: the C side of the library over a stub of the Go side
# (testdata/stub.c). It has the symbols and soname rules of the real one, so that a
# binding can be tried without Go.
#
#   capi/build-stub.sh OUTDIR [more gcc flags]
set -eu
out=${1:?usage: build-stub.sh OUTDIR [gcc flags]}
shift
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
sources=
for file in "$here"/*.c; do
  case $file in
  */agree.c) ;; # needs what cgo generates
  *) sources="$sources $file" ;;
  esac
done
# shellcheck disable=SC2086
"${CC:-gcc}" -std=gnu11 -O2 -g -fPIC -shared -fvisibility=hidden -pthread \
  -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror "$@" \
  -I"$here/../include" $sources "$here/testdata/stub.c" \
  -Wl,--version-script="$here/mcprt.map" -Wl,-soname,libmcprt-stub.so -Wl,-z,nodelete \
  -o "$out/libmcprt-stub.so"

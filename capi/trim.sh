#!/bin/sh
# Makes build/trimmed/go.mod, with which the library is built (go build -modfile): mcp-go's
# client without its in-process transport. Only that transport needs mcp-go's server, which
# brings a JSON Schema compiler along: 0.8 MB, and 3 of the 7 ms that loading the library took.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
module=github.com/mark3labs/mcp-go
dir=./build/trimmed # relative: it stands in the library's build information
"$go" mod download "$module"
from=$("$go" list -m -f '{{.Dir}}' "$module")
rm -rf "$dir"
mkdir -p "$dir/mcp-go"
cp -R "$from/LICENSE" "$from/go.mod" "$from/go.sum" "$from/client" "$from/mcp" "$from/tracing" "$dir/mcp-go"
chmod -R u+w "$dir/mcp-go"
rm "$dir/mcp-go/client/inprocess.go" "$dir/mcp-go/client/transport/inprocess.go"
find "$dir/mcp-go" -name '*_test.go' -delete
cp go.sum "$dir/go.sum"
{ cat go.mod; printf '\nreplace %s => %s\n' "$module" "$dir/mcp-go"; } >"$dir/go.mod"

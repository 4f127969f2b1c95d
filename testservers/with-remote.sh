#!/usr/bin/env bash
# Runs COMMAND while the public servers that mcp.json knows by url listen on free ports
# of this machine; REMOTE_EVERYTHING, REMOTE_EVERYTHING_SSE, REMOTE_FASTMCP, REMOTE_PYTHONSDK and REMOTE_GOSDK name them.
# REMOTE_GUARDED is a server that wants a sign-in, OAUTH_ISSUER where that is had.
set -euo pipefail
[ $# -gt 0 ] || { echo 'usage: with-remote.sh COMMAND...' >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
everything=$here/node_modules/@modelcontextprotocol/server-everything/dist/index.js
read -r http sse fastmcp pythonsdk gosdk issuer guarded < <("$here/.venv/bin/python" - <<'PY'
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(7)]
print(*(s.getsockname()[1] for s in held))
PY
)
log=$(mktemp)
pids=()
finish() {
  kill "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
  rm -f "$log"
}
trap finish EXIT
PORT=$http node "$everything" streamableHttp >>"$log" 2>&1 & pids+=($!)
PORT=$sse node "$everything" sse >>"$log" 2>&1 & pids+=($!)
"$here/.venv/bin/python" "$here/fastmcp_server.py" "$fastmcp" >>"$log" 2>&1 & pids+=($!)
export OAUTH_ISSUER=http://127.0.0.1:$issuer REMOTE_GUARDED=http://127.0.0.1:$guarded/mcp
node "$here/oauth_server.mjs" "$issuer" "$REMOTE_GUARDED" >>"$log" 2>&1 & pids+=($!)
"$here/.venv/bin/python" "$here/guarded_server.py" "$guarded" "$OAUTH_ISSUER" >>"$log" 2>&1 & pids+=($!)
"$here/.venv/bin/python" "$here/pythonsdk_server.py" "$pythonsdk" >>"$log" 2>&1 & pids+=($!)
"$here/../build/gosdk-server" "$gosdk" >>"$log" 2>&1 & pids+=($!)
for port in "$http" "$sse" "$fastmcp" "$pythonsdk" "$gosdk" "$issuer" "$guarded"; do
  for _ in $(seq 600); do
    { : <>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null && continue 2
    sleep 0.1
  done
  echo "no server came up on port $port:" >&2
  cat "$log" >&2
  exit 1
done
export REMOTE_EVERYTHING=http://127.0.0.1:$http/mcp REMOTE_EVERYTHING_SSE=http://127.0.0.1:$sse/sse REMOTE_FASTMCP=http://127.0.0.1:$fastmcp/mcp
export REMOTE_PYTHONSDK=http://127.0.0.1:$pythonsdk/mcp REMOTE_GOSDK=http://127.0.0.1:$gosdk
"$@"

#!/usr/bin/env bash
# Says how to use the server that with-remote.sh runs and that wants a sign-in, and waits.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cat <<TEXT
A server that wants a sign-in listens on this machine. In a folder of its own:

  echo '{"mcpServers": {"guarded": {"url": "$REMOTE_GUARDED"}}}' >.mcp.json
  $root/build/mcprt call --trust-project whoami --server guarded     # fails: needs_auth
  $root/build/mcprt login --trust-project guarded                    # open the address it prints; everybody may
  $root/build/mcprt call --trust-project whoami --server guarded
  $root/build/mcprt logout --trust-project guarded

Access tokens live for an hour; for N seconds after: curl '$OAUTH_ISSUER/test/life?seconds=N'
Ctrl-C ends it.
TEXT
trap 'exit 0' INT TERM
while kill -0 "$PPID" 2>/dev/null; do sleep 1; done # whoever ended the servers may not have told this script

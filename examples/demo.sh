#!/usr/bin/env bash
# Shows the main job on real servers: a good one, one that takes 3 s to start, and a
# broken one, first with an empty tool cache, then with a full one, from C, Python and
# Node. `make demo` builds what this needs and calls it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/mcprt-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT

bold= faint= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1;36m' faint=$'\e[2m' plain=$'\e[0m'
fi

# Nothing of the user is read or written: config and cache live in the work folder.
export XDG_CONFIG_HOME=$work/config
export MCPRT_LIBRARY=$root/build/libmcprt.so.0
export LD_LIBRARY_PATH=$root/build
export PYTHONPATH=$root/bindings/python/src

# The path is quoted by a JSON encoder: a folder may have any name.
mcprt=$("${PYTHON:-python3}" -c 'import json, sys; print(json.dumps(sys.argv[1]))' "$root/build/mcprt")

# config BROKEN_ARGS: the three servers; only the broken one differs.
config() {
  cat <<JSON
{
  "mcpServers": {
    "demo":   { "command": $mcprt, "args": ["demo-server"] },
    "slow":   { "command": $mcprt, "args": ["demo-server", "--start-delay", "3s"] },
    "broken": { "command": $mcprt, "args": ["demo-server"$1] }
  }
}
JSON
}

# run LANGUAGE CACHE COMMAND…: one run in a fresh project; the cache outlives it.
run() {
  local language=$1 cache=$2 project=$work/project
  shift 2
  printf '\n%s%s, %s%s\n' "$bold" "$language" "$cache" "$plain"
  rm -rf "$project"
  mkdir -p "$project"
  config ', "--fail-start", "DEMO_TOKEN is not set"' >"$project/.mcp.json"
  config ', "--name", "mended"' >"$project/next.mcp.json"
  (cd "$project" && XDG_CACHE_HOME=$work/cache-$language "$@")
}

printf '%s%s%s\n' "$faint" "A project with three servers: one good, one that needs 3 s to start, one broken.
Cold cache: nobody knows the slow server's tools yet, so connect waits for them.
Warm cache: connect returns after 250 ms and knows why the broken one is broken;
the slow server's tools are deferred, and a call to one waits for it." "$plain"
[ $# -gt 0 ] || set -- C Python Node
for language; do
  for cache in 'cold cache' 'warm cache'; do
    case $language in
    C) run C "$cache" "$root/build/demo-c" ;;
    Python) run Python "$cache" "${PYTHON:-python3}" "$root/examples/python/demo.py" ;;
    Node) run Node "$cache" "${NODE:-node}" "$root/examples/node/demo.mjs" ;;
    *) echo "demo.sh knows C, Python and Node, not $language" >&2; exit 2 ;;
    esac
  done
done

#!/usr/bin/env bash
# The main job in each language on the machine that this runs on: a project with one real
# server, its tools, a call. Needs build/, Python and Node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD tool=$PWD/build/mcprt
case $(uname -s) in
MINGW* | MSYS* | CYGWIN*) root=$(cygpath -m "$root") tool=$(cygpath -m "$tool.exe") ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '{"mcpServers":{"demo":{"command":"%s","args":["demo-server"]}}}\n' "$tool" >"$work/.mcp.json"

echo 'the tool'
(cd "$work" && "$tool" call --trust-project --server demo echo text=hi) | grep -q hi

case $(uname -s) in
MINGW* | MSYS* | CYGWIN*) ;; # capi/testdata/wintest.c takes this part there
*)
  echo C
  "${CC:-cc}" -std=c11 -O2 examples/c/demo.c -Iinclude -Lbuild -lmcprt -Wl,-rpath,"$root/build" -o "$work/demo"
  # It goes on with servers that this project does not have: what counts is the call.
  (cd "$work" && ./demo || true) | tee /dev/stderr | grep -q -- '-> 42'
  ;;
esac

cat >"$work/try.py" <<'PY'
import mcprt, sys
with mcprt.Runtime(cwd=sys.argv[1], project_trust="always", discovery={"user": "none"}) as rt:
    assert rt.connect().connected == ["demo"]
    assert rt.call("mcp_demo_echo", {"text": "hi"}).text == "hi"
    print(type(rt._library).__name__, mcprt.library_version())
PY
for backend in library serve; do
  echo "Python, $backend"
  MCPRT_BACKEND=$backend PYTHONPATH=$root/bindings/python/src "${PYTHON:-python}" "$work/try.py" "$work"
done

(cd bindings/node && { [ -d node_modules ] || npm ci --no-fund --no-audit; })
cat >"$work/try.mjs" <<'JS'
const { Runtime } = await import(process.argv[2])
const runtime = await Runtime.open({ cwd: process.argv[3], projectTrust: 'always', discovery: { user: 'none' } })
const { connected } = await runtime.connect()
if (String(connected) !== 'demo') throw new Error(`connected: ${connected}`)
const { text } = await runtime.call('mcp_demo_echo', { text: 'hi' })
if (text !== 'hi') throw new Error(text)
await runtime.close()
JS
backends='library serve'
case $(uname -s) in MINGW* | MSYS* | CYGWIN*) backends=serve ;; esac # there is no wake pipe
for backend in $backends; do
  echo "Node, $backend"
  index=$root/bindings/node/index.js
  MCPRT_BACKEND=$backend node "$work/try.mjs" "$(node -p 'require("node:url").pathToFileURL(process.argv[1]).href' "$index")" "$work"
done
echo 'all is well'

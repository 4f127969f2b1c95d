#!/usr/bin/env bash
# Makes the project DIR that the tests of the public servers run in, in C, Python and
# Node: a config that names the servers, a file to read, a git repository to ask about.
set -euo pipefail
project=${1:?usage: project.sh DIR}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$project"
cp "$here/mcp.json" "$project/.mcp.json"
echo 'a line of notes' >"$project/notes.txt"
git init --quiet "$project/repo"
git -C "$project/repo" -c user.name=test -c user.email=test@example.invalid -c commit.gpgsign=false \
  commit --quiet --allow-empty --message 'the first commit'

"""The npm packages of dist/, installed into an empty folder: the README's examples as they are printed, both module
systems, their types, the command line tool, and Bun and Deno."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from readme import ROOT, blocks
from registry import Registry

README = "bindings/node/README.md"
NODE_MODULES = ROOT / "bindings/node/node_modules"
RUNTIMES = ROOT / "bindings/node/runtimes/node_modules/.bin"
DIST = ROOT / "dist"
VERSION = json.loads((ROOT / "bindings/node/package.json").read_text())["version"]


def pack(folder: Path, target: Path) -> Path:
    command = ["npm", "pack", "--json", "--offline", "--ignore-scripts", "--pack-destination", target]
    done = subprocess.run(command, cwd=folder, check=True, text=True, capture_output=True, timeout=60)
    return target / json.loads(done.stdout)[0]["filename"]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Has the packages, for a second platform too, and what they depend on."""
    target = tmp_path_factory.mktemp("tarballs")
    build = ROOT / "build"
    machine = subprocess.run(["node", "-p", "process.arch"], check=True, text=True, capture_output=True).stdout.strip()
    other = "x64" if machine == "arm64" else "arm64"
    pack_js = ["node", ROOT / "bindings/node/pack.js", target, build, f"linux-{other}={build}"]
    subprocess.run(pack_js, check=True, capture_output=True, timeout=120)
    for package in [NODE_MODULES / "koffi", *NODE_MODULES.glob("@koromix/koffi-*")]:
        pack(package, target)
    served = Registry(target.glob("*.tgz"))
    yield served
    served.close()


@pytest.fixture(scope="module")
def environ(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """Of somebody who has nothing of ours: no MCPRT_LIBRARY, an empty home, a registry."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(("mcprt_", "npm_config_"))}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "DENO_DIR": str(home / "deno"),
        "DENO_NO_UPDATE_CHECK": "1",
        "npm_config_registry": registry.url,
        "npm_config_cache": str(home / "npm"),
        "npm_config_update_notifier": "false",
        "NO_COLOR": "1",
    }


def run(command: List[str], cwd: Path, environ: Dict[str, str], status: int = 0) -> str:
    done = subprocess.run(command, cwd=cwd, env=environ, text=True, capture_output=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def shell(text: str, cwd: Path, environ: Dict[str, str]) -> str:
    return run(["bash", "-euc", text], cwd, environ)


@pytest.fixture(scope="module")
def project(environ: Dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody has after the README's first steps. No script of a package may be needed: npm runs none by default."""
    folder = tmp_path_factory.mktemp("project")
    install, *_ = blocks(README, "sh")
    shell(install, folder, {**environ, "npm_config_ignore_scripts": "true"})
    (folder / ".mcp.json").write_text(blocks(README, "json")[0])
    return folder


def test_readme_as_printed(project: Path, environ: Dict[str, str]) -> None:
    (project / "agent.mjs").write_text(blocks(README, "js")[0])
    shown = shell(blocks(README, "sh")[1], project, environ)
    assert "'mcp_demo_echo'" in shown and "\nhi\n" in shown
    assert shown.split("\nhi\n")[1].strip() == "42"


def test_every_program_of_the_readme_runs(project: Path, environ: Dict[str, str]) -> None:
    for i, text in enumerate(blocks(README, "js")):
        (project / f"program{i}.mjs").write_text(text)
        run(["node", f"program{i}.mjs"], project, environ)


def test_install_by_name_takes_the_package_of_this_platform(registry: Registry, environ: Dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("{}")
    run(["npm", "install", "mcprt"], tmp_path, environ)
    (found,) = (tmp_path / "node_modules/@mcprt").iterdir()
    assert json.loads((found / "package.json").read_text())["version"] == VERSION
    (tmp_path / ".mcp.json").write_text(blocks(README, "json")[0])
    (tmp_path / "agent.mjs").write_text(blocks(README, "js")[0])
    assert run(["node", "agent.mjs"], tmp_path, environ).endswith("\nhi\n")
    lock = json.loads((tmp_path / "package-lock.json").read_text())["packages"]
    assert len([name for name in lock if "@mcprt/" in name]) == 2, "the lock file serves other machines too"

    # Without its platform's package the error says so.
    shutil.rmtree(tmp_path / "node_modules")
    run(["npm", "install", "--omit=optional"], tmp_path, environ)
    said = run(["node", "agent.mjs"], tmp_path, environ, status=1)
    assert f"libmcprt.so.0 is not in the package @mcprt/{found.name}; install @mcprt/{found.name} in the version of mcprt" in said
    assert f"it is not in the package @mcprt/{found.name}; install" in run(["npx", "mcprt", "version"], tmp_path, environ, status=1)


COMMONJS = """
const { Runtime, TimeoutError } = require('mcprt')
import('mcprt').then(async (imported) => {
  if (imported.Runtime !== Runtime || imported.TimeoutError !== TimeoutError) throw new Error('two modules')
  const runtime = await Runtime.open({ projectTrust: 'always' })
  await runtime.connect()
  console.log((await runtime.call('mcp_demo_echo', { text: 'required' })).text)
  await runtime.close()
})
"""


@pytest.mark.parametrize("runtime", ["node", "bun", "deno"])
def test_require(runtime: str, project: Path, environ: Dict[str, str]) -> None:
    (project / "agent.cjs").write_text(COMMONJS)
    done = subprocess.run([*command(runtime), "agent.cjs"], cwd=project, env=environ, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "required\n", "")


TYPED = """
const opened: Promise<Runtime> = Runtime.open({ cwd: '.' })
export async function use(signal: AbortSignal): Promise<string> {
  const runtime = await opened
  try {
    return (await runtime.call('x', {}, { signal })).text
  } catch (error) {
    if (error instanceof TimeoutError) return error.code
    throw error
  }
}
// @ts-expect-error
Runtime.open({ cwd: 5 })
"""


@pytest.mark.parametrize("module", ["node16", "nodenext"])
def test_types_for_both_module_systems(module: str, project: Path, environ: Dict[str, str]) -> None:
    (project / "imports.mts").write_text("import { Runtime, TimeoutError } from 'mcprt'\n" + TYPED)
    (project / "requires.cts").write_text("import mcprt = require('mcprt')\nimport Runtime = mcprt.Runtime\nimport TimeoutError = mcprt.TimeoutError\n" + TYPED)
    # No "types" and no "lib": what a new project has, and TypeScript takes no types by itself since version 6.
    types = project / "node_modules/@types"
    types.mkdir(exist_ok=True)
    if not (types / "node").exists():
        (types / "node").symlink_to(NODE_MODULES / "@types/node")
    options = ["--noEmit", "--strict", "--module", module, "--target", "es2022"]
    run([str(NODE_MODULES / ".bin/tsc"), *options, "imports.mts", "requires.cts"], project, environ)


def test_command_line_tool(project: Path, environ: Dict[str, str]) -> None:
    assert VERSION in run(["npx", "mcprt", "version"], project, environ)
    listed = json.loads(run(["npx", "mcprt", "list", "--trust-project", "--json"], project, environ))
    assert "mcp_demo_echo" in json.dumps(listed)
    assert run(["npx", "mcprt", "nothing"], project, environ, status=2).startswith("mcprt: ")


def test_a_signal_reaches_the_command_line_tool(project: Path, environ: Dict[str, str]) -> None:
    started = subprocess.Popen(
        ["node", "node_modules/mcprt/bin/mcprt.js", "demo-server"], cwd=project, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdin and started.stdout
    started.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    started.stdin.flush()
    assert started.stdout.readline()
    started.send_signal(signal.SIGTERM)
    assert started.stdout.read() == b"", "nobody is left who holds the pipe"
    assert started.wait(10) == 0, "the demo server ends in order when it is told to"


def command(runtime: str) -> List[str]:
    deno = [str(RUNTIMES / "deno"), "run", "--no-prompt", "--allow-ffi", "--allow-read", "--allow-env"]
    return {"node": ["node"], "bun": [str(RUNTIMES / "bun")], "deno": deno}[runtime]


LIVE = """
import { Runtime } from 'mcprt'

const runtime = await Runtime.open({ cwd: '.', projectTrust: 'always' })
const seen = new Set()
runtime.on('event', (event) => seen.add(event.type))
await runtime.connect()
for (let i = 0; i < 200; i++) {
  const { text } = await runtime.call('mcp_demo_echo', { text: `one ${i}` })
  if (text !== `one ${i}`) throw new Error(text)
}
const texts = await Promise.all(Array.from({ length: 500 }, (_, i) => runtime.call('mcp_demo_echo', { text: `all ${i}` })))
if (!texts.every(({ text }, i) => text === `all ${i}`)) throw new Error('answers got mixed up')
const progress = []
await runtime.call('mcp_demo_slow', { ms: 50, steps: 2 }, { onProgress: (event) => progress.push(event.progress) })
try {
  await runtime.call('mcp_demo_slow', { ms: 60000 }, { signal: AbortSignal.timeout(50) })
} catch (error) {
  console.log(error.name)
}
for await (const event of runtime.events()) {
  if (event.type === 'server_state') break
  // The event comes while nothing else runs.
}
console.log([...seen].includes('server_state'), progress.length > 0)
await runtime.disconnect()
const unclosed = await Runtime.open({ cwd: '.', projectTrust: 'always' })
await unclosed.connect()
console.log('ends by itself')
"""


@pytest.mark.parametrize("runtime", ["node", "bun", "deno"])
def test_runtimes(runtime: str, project: Path, environ: Dict[str, str]) -> None:
    (project / "agent.mjs").write_text(blocks(README, "js")[0])
    assert run([*command(runtime), "agent.mjs"], project, environ).endswith("\nhi\n")
    text = LIVE.replace("for await", "setTimeout(() => void runtime.disconnect(), 20)\nfor await")
    (project / "live.mjs").write_text(text)
    assert run([*command(runtime), "live.mjs"], project, environ).split("\n") == ["TimeoutError", "true true", "ends by itself", ""]

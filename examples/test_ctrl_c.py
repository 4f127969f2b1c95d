"""Ctrl-C, wherever a program is: it ends, soon, and no server of it is left. And the places where programs of these
languages run: threads, processes that were spawned, worker threads, event loops inside of notebooks."""

import json
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Iterator, List

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PYTHON = str(ROOT / ".venv/bin/python")
#: What a loaded machine may need; on an idle one all of these take some tens of milliseconds.
PATIENCE = 10

OPEN = """
import asyncio, threading
import mcprt
def ready(_=None): print("ready", flush=True)
"""
SYNC = OPEN + 'rt = mcprt.Runtime(project_trust="always")\n'
SLOW = 'mcp_demo_slow", {"ms": 600000, "steps": 1000}'

PYTHON_PROGRAMS = {
    "call": SYNC + f'rt.connect()\nrt.call("{SLOW}, progress=ready)\n',
    "call without progress": SYNC + f'rt.connect()\nthreading.Timer(0.2, ready).start()\nrt.call("{SLOW})\n',
    "with block": OPEN
    + f'with mcprt.Runtime(project_trust="always") as rt:\n    rt.connect()\n    rt.call("{SLOW}, progress=ready)\n',
    "connect": SYNC + 'threading.Timer(0.5, ready).start()\nrt.connect(servers={"late": {"command": "sleep", "args": ["60"]}}, startup_timeout=50)\n',
    "list of a server": SYNC
    + 'rt.connect()\nthreading.Timer(0.2, ready).start()\nrt.connect(servers={"late": {"command": "sleep", "args": ["60"]}}, startup_timeout=0.1, uncached="background")\nrt.resources("late")\n',
    "events": SYNC + "rt.connect()\nready()\nfor event in rt.events():\n    pass\n",
    "thread": SYNC
    + f'rt.connect()\nt = threading.Thread(target=lambda: rt.call("{SLOW}, progress=ready), daemon=True)\nt.start()\nwhile t.is_alive(): t.join(0.1)\n',
    "asyncio call": OPEN
    + f"""
async def main():
    async with mcprt.AsyncRuntime(project_trust="always") as rt:
        await rt.connect()
        await rt.call("{SLOW}, progress=ready)
asyncio.run(main())
""",
    "asyncio events": OPEN
    + """
async def main():
    async with mcprt.AsyncRuntime(project_trust="always") as rt:
        await rt.connect()
        asyncio.get_running_loop().call_later(0.2, ready)
        async for event in rt.events():
            pass
asyncio.run(main())
""",
    "asyncio many calls": OPEN
    + f"""
async def main():
    async with mcprt.AsyncRuntime(project_trust="always") as rt:
        await rt.connect()
        asyncio.get_running_loop().call_later(0.3, ready)
        await asyncio.gather(*(rt.call("{SLOW}) for _ in range(50)))
asyncio.run(main())
""",
}

OPEN_NODE = "import { Runtime } from 'mcprt'\nconst rt = await Runtime.open({ projectTrust: 'always' })\nconst ready = () => console.log('ready')\n"
HANDLED = "process.once('SIGINT', () => void rt.close())\n"
SLOW_NODE = "rt.call('mcp_demo_slow', { ms: 600000, steps: 1000 }, { onProgress: ready })"

NODE_PROGRAMS = {
    "call": OPEN_NODE + f"await rt.connect()\nawait {SLOW_NODE}\n",
    "call, closed by a handler": OPEN_NODE + HANDLED + f"await rt.connect()\nawait {SLOW_NODE}.catch((error) => console.log(error.code))\n",
    "call, aborted by a handler": OPEN_NODE
    + "const abort = new AbortController()\nprocess.once('SIGINT', () => abort.abort())\nawait rt.connect()\n"
    + "await rt.call('mcp_demo_slow', { ms: 600000, steps: 1000 }, { onProgress: ready, signal: abort.signal }).catch((error) => console.log(error.name))\nawait rt.close()\n",
    "connect": OPEN_NODE + "setTimeout(ready, 500)\nawait rt.connect({ servers: { late: { command: 'sleep', args: ['60'] } }, startupTimeoutMs: 50000 })\n",
    "events": OPEN_NODE + "await rt.connect()\nsetTimeout(ready, 200)\nfor await (const event of rt.events()) void event\n",
    "worker thread": "import { Worker } from 'node:worker_threads'\nnew Worker(new URL('./worker.mjs', import.meta.url))\n",
}
WORKER = OPEN_NODE + f"await rt.connect()\nawait {SLOW_NODE}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    server = {"command": str(BUILD / "mcprt"), "args": ["demo-server"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": server}}))
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/mcprt").symlink_to(ROOT / "bindings/node")
    (tmp_path / "worker.mjs").write_text(WORKER)
    return tmp_path


class Host:
    """A program, and all processes that came from it, by a mark in their environment."""

    def __init__(self, command: List[str], project: Path) -> None:
        self.mark = f"MCPRT_TEST_MARK={uuid.uuid4()}"
        name, value = self.mark.split("=")
        env = {**os.environ, name: value, "PYTHONPATH": str(ROOT / "bindings/python/src"), "PYTHONUNBUFFERED": "1"}
        env.update(XDG_CACHE_HOME=str(project / "cache"), XDG_CONFIG_HOME=str(project / "config"))
        self.process = subprocess.Popen(
            command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def until_ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "ready" in line:
                return
        raise AssertionError(f"it ended: {self.process.communicate()[1]}")

    def others(self) -> List[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) != self.process.pid and self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def until_alone(self) -> None:
        end = time.monotonic() + PATIENCE
        while self.others():
            assert time.monotonic() < end, f"left behind: {self.others()}"
            time.sleep(0.02)


@pytest.fixture
def hosts() -> Iterator[List[Host]]:
    made: List[Host] = []
    yield made
    for host in made:
        host.process.kill()
        host.process.wait()
        for stream in (host.process.stdout, host.process.stderr):
            assert stream is not None
            stream.close()


def interrupt(command: List[str], project: Path, hosts: List[Host]) -> Host:
    host = Host(command, project)
    hosts.append(host)
    host.until_ready()
    assert host.others(), "no server runs: the test would show nothing"
    host.process.send_signal(signal.SIGINT)
    host.process.wait(PATIENCE)
    host.until_alone()
    return host


@pytest.mark.parametrize("name", PYTHON_PROGRAMS)
def test_python(name: str, project: Path, hosts: List[Host]) -> None:
    (project / "program.py").write_text(PYTHON_PROGRAMS[name])
    host = interrupt([PYTHON, "program.py"], project, hosts)
    assert host.process.returncode == -signal.SIGINT and host.process.stderr is not None
    assert host.process.stderr.read().rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("name", NODE_PROGRAMS)
def test_node(name: str, project: Path, hosts: List[Host]) -> None:
    (project / "program.mjs").write_text(NODE_PROGRAMS[name])
    host = interrupt(["node", "program.mjs"], project, hosts)
    if "handler" not in name:
        assert host.process.returncode == -signal.SIGINT
        return
    assert host.process.returncode == 0 and host.process.stdout is not None
    assert host.process.stdout.read().split()[-1] == ("closed" if "closed" in name else "AbortError")


PLACES = {
    "threads": """
from concurrent.futures import ThreadPoolExecutor
import mcprt
with mcprt.Runtime(project_trust="always") as rt, ThreadPoolExecutor(16) as pool:
    rt.connect()
    assert list(pool.map(lambda n: rt.call("mcp_demo_echo", {"text": str(n)}).text, range(200))) == [str(n) for n in range(200)]
""",
    "spawned processes": """
import multiprocessing
import mcprt
def work(n):
    with mcprt.Runtime(project_trust="always") as rt:
        rt.connect()
        return rt.call("mcp_demo_echo", {"text": str(n)}).text
if __name__ == "__main__":
    with mcprt.Runtime(project_trust="always") as rt:   # the parent has one, too
        rt.connect()
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            assert pool.map(work, range(4)) == ["0", "1", "2", "3"]
        assert rt.call("mcp_demo_echo", {"text": "hi"}).text == "hi"
""",
    "a notebook's cell, asyncio": """
import ast, asyncio, inspect
cell = '''
import mcprt
rt = mcprt.AsyncRuntime(project_trust="always")
await rt.connect()
text = (await rt.call("mcp_demo_echo", {"text": "hi"})).text
await rt.close()
'''
async def kernel():   # what IPython does with a cell that awaits
    names = {}
    code = compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, names)
    assert names["text"] == "hi"
asyncio.run(kernel())
""",
    "a notebook's cell, blocking": """
import asyncio
import mcprt
async def kernel():   # a loop runs in this thread, and the cell blocks it
    with mcprt.Runtime(project_trust="always") as rt:
        rt.connect()
        assert rt.call("mcp_demo_echo", {"text": "hi"}).text == "hi"
asyncio.run(kernel())
""",
    "a loop inside a loop": """
import asyncio, threading
import mcprt
async def inner():
    async with mcprt.AsyncRuntime(project_trust="always") as rt:
        await rt.connect()
        return (await rt.call("mcp_demo_echo", {"text": "hi"})).text
async def outer():    # asyncio.run cannot nest in one thread; in another it does
    return await asyncio.to_thread(lambda: asyncio.run(inner()))
assert asyncio.run(outer()) == "hi"
""",
    "a cancelled task": """
import asyncio
import mcprt
async def main():
    async with mcprt.AsyncRuntime(project_trust="always") as rt:
        await rt.connect()
        task = asyncio.create_task(rt.call("mcp_demo_slow", {"ms": 600000}))
        await asyncio.sleep(0.1)
        task.cancel()
        try:
            await task
            raise SystemExit("it was not cancelled")
        except asyncio.CancelledError:
            pass
        assert (await rt.call("mcp_demo_echo", {"text": "hi"})).text == "hi"
        assert rt is not None and (await rt.stats()).servers["demo"]["errors"] == {"canceled": 1}
asyncio.run(main())
""",
}


@pytest.mark.parametrize("name", PLACES)
def test_places(name: str, project: Path, hosts: List[Host]) -> None:
    (project / "program.py").write_text(PLACES[name])
    host = Host([PYTHON, "program.py"], project)
    hosts.append(host)
    _, stderr = host.process.communicate(timeout=60)
    assert (host.process.returncode, stderr) == (0, "")
    host.until_alone()

"""The real library, and what takes its place, with real server processes: build/libmcprt.so.0, build/mcprt serve and
build/mcprt demo-server, see "make build"."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import mcprt
from mcprt import AsyncRuntime, Progress, Request, Runtime, _library

from .conftest import ROOT, alive, wait_until
from .scripted_server import EXACT, TOOLS

SCRIPTED: Dict[str, Any] = {"command": sys.executable, "args": [str(Path(__file__).with_name("scripted_server.py"))]}


def demo(*flags: str) -> Dict[str, Any]:
    return {"command": str(ROOT / "build" / "mcprt"), "args": ["demo-server", *flags]}


@pytest.fixture(autouse=True, params=["library", "serve"])
def real(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The build of this checkout, whatever the environment names; once as a library, once over a pair of pipes."""
    library, tool = ROOT / "build" / "libmcprt.so.0", ROOT / "build" / "mcprt"
    assert library.is_file() and tool.is_file(), "run 'make build' first"
    monkeypatch.setattr(_library, "_loaded", None)
    monkeypatch.setenv("MCPRT_BACKEND", request.param)
    monkeypatch.setenv("MCPRT_LIBRARY", str(library))
    monkeypatch.setenv("MCPRT_TOOL", str(tool))
    yield
    loaded: Any = _library._loaded
    if request.param == "serve" and loaded is not None:
        loaded.shutdown()


@pytest.fixture
def options(tmp_path: Path) -> Dict[str, Any]:
    """A project and a cache of this test's own, and nothing of this machine's user."""
    project = tmp_path / "project"
    project.mkdir()
    return {"cwd": project, "cache": {"dir": tmp_path / "cache"}, "discovery": {"user": "none"}, "grace": 0.5}


@pytest.fixture
def rt(options: Dict[str, Any]) -> Iterator[Runtime]:
    with Runtime(servers={"s": SCRIPTED}, **options) as runtime:
        assert runtime.connect().connected == ["s"]
        yield runtime


def in_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=20)


def test_good_and_bad_servers(options: Dict[str, Any]) -> None:
    servers = {
        "good": demo(),
        "hanging": demo("--start-delay", "1m"),
        "broken": demo("--fail-start", "no token"),
        "missing": {"command": "/nonexistent/server"},
    }
    with Runtime(servers=servers, **options) as rt:
        report = rt.connect(uncached="background", startup_timeout=1.5)
        assert 1.5 <= report.elapsed_seconds < 5
        assert report.connected == ["good"]
        assert report.pending == ["hanging"]
        assert {tool.server for tool in report.tools} == {"good"}
        missing, broken = report.errors["missing"], report.errors["broken"]
        assert type(missing) is mcprt.SpawnFailedError
        assert (missing.server, missing.stage, missing.data["command"]) == ("missing", "spawn", "/nonexistent/server")
        assert type(broken) is mcprt.ExitedError
        assert broken.data["exitCode"] == 3 and "no token" in broken.data["stderr"]
        views = {view.name: view for view in rt.servers()}
        assert views["good"].status == "connected" and views["good"].server_info["name"] == "mcprt-demo"
        assert views["hanging"].status == "connecting"
        assert isinstance(views["missing"].error, mcprt.SpawnFailedError)
        with pytest.raises(mcprt.SpawnFailedError):
            rt.call("echo", {"text": "x"}, server="missing")
        with pytest.raises(mcprt.UnknownServerError):
            rt.call("echo", {"text": "x"}, server="nobody")
        with pytest.raises(mcprt.UnknownToolError) as caught:
            rt.call("nothing")
        assert caught.value.result is not None and caught.value.result.is_error
        with pytest.raises(TimeoutError):
            rt.call("echo", {"text": "x"}, server="hanging", timeout=0.1)


def test_a_deferred_tool_is_called_while_its_server_starts(options: Dict[str, Any]) -> None:
    slow = {"slow": demo("--start-delay", "1200ms")}
    with Runtime(servers=slow, **options) as rt:
        assert [tool.deferred for tool in rt.connect().tools] == [False] * 5
    with Runtime(servers=slow, **options) as rt:
        report = rt.connect()
        assert 0.25 <= report.elapsed_seconds < 1.1
        assert report.deferred == report.pending == ["slow"]
        assert [tool.deferred for tool in report.tools] == [True] * 5
        assert rt.call("mcp_slow_echo", {"text": "waited"}).text == "waited"
        assert [tool.deferred for tool in rt.list()] == [False] * 5
        assert rt.list(if_revision=rt.list().revision) is None
        assert [tool.tool for tool in rt.list(refresh=True)] == [tool.tool for tool in rt.list()]


@pytest.mark.parametrize("where", [lambda f: f(), in_thread], ids=["main thread", "other thread"])
def test_bytes_are_exact(rt: Runtime, where: Callable[[Callable[[], Any]], Any]) -> None:
    result = where(lambda: rt.call("mcp_s_exact"))
    assert result.raw == EXACT
    assert result.data["big"] == 9007199254740993
    assert result.content[0] == {"type": "hologram", "depth": 1.5, "nested": {"a": [1, 2, {}]}}
    assert result.text == '\u2603 \u2603 "]}'
    big = where(lambda: rt.call("big", {"bytes": 10_000_000}, server="s"))
    assert big.raw == b'{"content":[{"type":"text","text":"' + b"x" * 10_000_000 + b'"}]}'


def test_bytes_are_exact_for_asyncio_and_for_tools(options: Dict[str, Any]) -> None:
    async def main() -> None:
        async with AsyncRuntime(servers={"s": SCRIPTED}, **options) as rt:
            tools = (await rt.connect()).tools
            assert [tool.tool for tool in tools] == list(TOOLS)
            assert all(b'"inputSchema":{"type": "object", "x-exact": 1.5}' in tool.raw for tool in tools)
            exact, big = await asyncio.gather(rt.call("mcp_s_exact"), rt.call("mcp_s_big", {"bytes": 10_000_000}))
            assert exact.raw == EXACT
            assert len(big.text) == 10_000_000

    asyncio.run(main())


def test_a_thousand_calls_and_a_thousand_cancelled_ones(options: Dict[str, Any]) -> None:
    async def main() -> None:
        async with AsyncRuntime(servers={"s": SCRIPTED, "d": demo()}, **options) as rt:
            await rt.connect()
            results = await asyncio.gather(*(rt.call("mcp_d_add", {"a": n, "b": 1}) for n in range(1000)))
            assert [result.structured for result in results] == [{"sum": n + 1} for n in range(1000)]

            calls = [asyncio.create_task(rt.call("mcp_s_hang", timeout=60)) for _ in range(1000)]
            await rt.call("mcp_s_exact")  # the server reads in order: it has all of them now
            for call in calls:
                call.cancel()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in done)
            for _ in range(200):
                if (await rt.call("mcp_s_cancelled")).text == "1000":
                    return
                await asyncio.sleep(0.02)
            raise AssertionError((await rt.call("mcp_s_cancelled")).text)

    asyncio.run(main())


def test_many_first_calls_at_once(options: Dict[str, Any]) -> None:
    with Runtime(servers={"s": SCRIPTED}, **options) as rt, ThreadPoolExecutor(50) as pool:
        rt.connect()
        calls = [pool.submit(rt.call, "mcp_s_exact") for _ in range(200)]
        assert all(call.result(20).raw == EXACT for call in calls)


def test_a_timeout_is_told_to_the_server(rt: Runtime) -> None:
    with pytest.raises(mcprt.TimeoutError) as caught:
        rt.call("mcp_s_hang", timeout=0.1)
    assert caught.value.server == "s"
    assert 0 < caught.value.data["timeoutMs"] <= 100
    wait_until(lambda: rt.call("mcp_s_cancelled").text == "1")


def test_a_server_that_dies_in_a_call(rt: Runtime) -> None:
    before = time.monotonic()
    with pytest.raises(mcprt.MCPError) as caught:
        rt.call("mcp_s_die", timeout=10)
    assert time.monotonic() - before < 2
    error = caught.value
    assert error.code in ("exited", "outcome_unknown")
    assert error.data["exitCode"] == 7 and "out of coffee" in error.data["stderr"]
    assert error.result is not None and error.result.is_error
    assert rt.call("mcp_s_exact", timeout=20).raw == EXACT


def test_ctrl_c_cancels_at_the_server(options: Dict[str, Any]) -> None:
    program = """
import json, os, signal, sys, threading, time, mcprt
options, servers = json.loads(sys.argv[1]), json.loads(sys.argv[2])
with mcprt.Runtime(servers=servers, **options) as rt:
    rt.connect()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        rt.call("mcp_s_hang", timeout=60)
    except KeyboardInterrupt:
        print("interrupted")
    while rt.call("mcp_s_cancelled").text != "1":
        time.sleep(0.01)
    print("cancelled")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(options, default=str), json.dumps({"s": SCRIPTED})],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\ncancelled\n", "", 0)


def test_progress_and_log_events(rt: Runtime) -> None:
    with rt.events(timeout=5) as events:
        for count in (0, 1, 500):
            seen: List[Progress] = []
            assert rt.call("mcp_s_burst", {"count": count}, progress=seen.append).text == "burst"
            assert [progress.progress for progress in seen] == list(range(1, count + 1))
        rt.call("mcp_s_log")
        log = next(event for event in events if event.type == "log")
    assert (log.data["server"], log.data["level"], log.data["data"]) == ("s", "warning", {"n": 1})


def test_tools_changed(options: Dict[str, Any]) -> None:
    with Runtime(servers={"d": demo("--list-changed-after", "100ms")}, **options) as rt:
        with rt.events(timeout=10) as events:
            rt.connect()
            late = next(event for event in events if "mcp_d_late" in event.data.get("added", []))
        assert late.type == "tools_changed"
        assert rt.list(names=["mcp_d_late"])[0].tool == "late"


def test_elicitation(options: Dict[str, Any]) -> None:
    def elicit(request: Request) -> Dict[str, Any]:
        assert (request.server, request.params["message"]) == ("s", "Your name?")
        return {"action": "accept", "content": {"name": "Ada"}}

    with Runtime(servers={"s": SCRIPTED}, on_request={"elicitation": elicit}, **options) as rt:
        rt.connect()
        assert json.loads(rt.call("mcp_s_ask").text) == {"action": "accept", "content": {"name": "Ada"}}

    async def main() -> None:
        async def refuse(request: Request) -> Dict[str, Any]:
            raise mcprt.ReplyError("user said no", -1)

        async with AsyncRuntime(servers={"s": SCRIPTED}, on_request={"elicitation": refuse}, **options) as rt:
            await rt.connect()
            answer = json.loads((await rt.call("mcp_s_ask")).text)
            assert (answer["code"], answer["message"]) == (-1, "user said no")

    asyncio.run(main())


def test_input(options: Dict[str, Any]) -> None:
    server = {**SCRIPTED, "env": {"TOKEN": "${input:tok}"}}
    asked: List[Any] = []

    def give(request: Request) -> Dict[str, Any]:
        asked.append((request.kind, request.server, request.params["id"], request.params["password"]))
        return {"value": "from a person"}

    with Runtime(servers={"s": server}, on_request={"input": give}, **options) as rt:
        report = rt.connect()
        assert report.needs_input == [{"server": "s", "inputs": [{"id": "tok", "description": "", "password": True}]}]
        assert asked == []
        assert rt.call("env", {"name": "TOKEN"}, server="s").text == "from a person"
        assert asked == [("input", "s", "tok", True)]

    def refuse(request: Request) -> Dict[str, Any]:
        raise mcprt.ReplyError("not today", 1)

    with Runtime(servers={"s": server}, on_request={"input": refuse}, **options) as rt:
        rt.connect()
        with pytest.raises(mcprt.NeedsInputError, match="not today"):
            rt.call("env", {"name": "TOKEN"}, server="s")


def test_the_environment_of_now_reaches_the_server(options: Dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPRT_SET_LATE", "late")
    server = {**SCRIPTED, "env": {"OWN": "<${MCPRT_SET_LATE}>"}}
    with Runtime(servers={"s": server}, **options) as rt:
        rt.connect()
        assert rt.call("mcp_s_env", {"name": "MCPRT_SET_LATE"}).text == "late"
        assert rt.call("mcp_s_env", {"name": "OWN"}).text == "<late>"


def test_trust_and_reload(options: Dict[str, Any]) -> None:
    config = Path(options["cwd"]) / ".mcp.json"

    def configure(*names: str) -> None:
        # An argument of its own: equal entries are one server.
        servers = {name: {**SCRIPTED, "args": [*SCRIPTED["args"], name]} for name in names}
        config.write_text(json.dumps({"mcpServers": servers}))

    configure("a", "b")
    env = {**os.environ, "XDG_CONFIG_HOME": f"{options['cwd']}/config", "XDG_STATE_HOME": f"{options['cwd']}/state"}
    with Runtime(env=env, **options) as rt:
        found = rt.discover()
        assert [server["name"] for server in found.servers] == ["a", "b"]
        assert found.servers[0]["source"]["path"] == str(config)
        report = rt.connect()
        assert report.connected == []
        assert [entry["name"] for entry in report.needs_trust] == ["a", "b"]
        with pytest.raises(mcprt.NeedsTrustError):
            rt.call("exact", server="a")
        trusted = rt.connect(trust={entry["name"]: entry["hash"] for entry in report.needs_trust})
        assert trusted.needs_trust == []
        assert {tool.server for tool in rt.list()} == {"a", "b"}

    with Runtime(project_trust="always", env=env, **options) as rt:
        assert rt.connect(startup_timeout=math.inf).connected == ["a", "b"]
        pids = {view.name: view.pid for view in rt.servers()}
        configure("a", "c")
        assert rt.reload().changes == mcprt.Changes(added=["c"], removed=["b"], changed=[], kept=["a"])
        assert {view.pid for view in rt.servers() if view.name == "a"} == {pids["a"]}
        assert rt.reload("full", startup_timeout=math.inf, uncached="background", gate="timer").connected == ["a", "c"]
        assert {view.pid for view in rt.servers() if view.name == "a"} != {pids["a"]}
        assert rt.disconnect("a") == ["a"]
        assert {tool.server for tool in rt.list()} == {"c"}
        with pytest.raises(mcprt.DisconnectedError):
            rt.call("exact", server="a")
        assert rt.connect(["a"]).needs_trust == []
        assert rt.call("exact", server="a").raw == EXACT


def test_a_broken_config_is_a_diagnostic(options: Dict[str, Any]) -> None:
    (Path(options["cwd"]) / ".mcp.json").write_text('{"mcpServers": {"a": {"command": ')
    with Runtime(project_trust="always", servers={"s": SCRIPTED}, **options) as rt:
        found = rt.discover()
        assert found.diagnostics[0].severity == "error"
        assert found.diagnostics[0].path == str(Path(options["cwd"]) / ".mcp.json")
        assert rt.connect().connected == ["s"]


def test_an_unknown_option_of_the_c_api_is_named(options: Dict[str, Any]) -> None:
    with pytest.raises(mcprt.InvalidRequestError, match="noSuchOption"):
        Runtime(options={"noSuchOption": 1}, **options)


def test_every_option_is_known_to_the_library(options: Dict[str, Any], tmp_path: Path) -> None:
    nested: Dict[str, Any] = {
        "discovery": {"project": True, "user": "own", "exclude": [], "files": [], "filter_exa": False, "filter_browser": False},
        "cache": {"dir": tmp_path / "cache", "ttl": 60, "enabled": True},
        "tool_names": {"prefix": "mcp_", "max_length": 64},
        "limits": {"message_bytes": 1 << 20, "pages": 10, "tools": 100, "config_bytes": 1 << 20},
        "log": {"level": "warn"},
        "client_info": {"name": "test", "version": "1"},
        "runtime": {"max_procs": 2, "memory_limit": 1 << 30, "gc_percent": 100},
        "auth": {"store": "memory"},
    }
    plain: Dict[str, Any] = dict(
        env={}, servers={}, startup_timeout=0.25, uncached="wait", gate="timer", timeout=30, max_timeout=3600,
        request_timeout=300, grace=2, project_trust="recorded", reconnect="auto", lazy=False, idle_timeout=0,
        max_concurrent_starts=16, max_in_flight=4096, queue_bytes=1 << 28, max_notices=4096, notice_bytes=1 << 24,
        env_policy="inherit", share=False, watch="off", pinning="off", login_path=False, spill=None, trace=None,
    )  # fmt: skip
    Runtime(**{**options, **nested, **plain}).close()


def test_closing_ends_the_processes(options: Dict[str, Any]) -> None:
    rt = Runtime(servers={"s": SCRIPTED, "d": demo()}, **options)
    rt.connect()
    pids = [view.pid or 0 for view in rt.servers()]
    assert all(pids) and all(alive(pid) for pid in pids)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(rt.call, "mcp_s_hang") for _ in range(4)]
        time.sleep(0.05)
        rt.close()
        assert {type(call.exception(5)) for call in calls} == {mcprt.ClosedError}
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_user_fault_b7_closing_in_any_order_from_any_thread_and_loop(options: Dict[str, Any]) -> None:
    """Made in one event loop, closed in another, in another thread and in another order: no error, no process left."""

    async def make() -> AsyncRuntime:
        rt = AsyncRuntime(servers={"s": SCRIPTED}, **options)
        assert (await rt.connect()).connected == ["s"]
        return rt

    many = [in_thread(lambda: asyncio.run(make())) for _ in range(3)]
    plain = [Runtime(servers={"s": SCRIPTED}, **options) for _ in range(3)]
    for rt in plain:
        rt.connect()
    pids = [view.pid or 0 for rt in plain for view in rt.servers()]

    async def close() -> None:
        async def one(rt: AsyncRuntime) -> None:
            await rt.close()

        # In tasks that did not open them, and twice.
        await asyncio.gather(*(one(rt) for rt in [many[2], many[0], many[1], many[0]]))

    in_thread(lambda: asyncio.run(close()))
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(plain[i].close) for i in (1, 2, 0, 1)]:
            done.result(10)
    assert all(pids)
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_forgotten_runtime_ends_its_processes(options: Dict[str, Any]) -> None:
    rt = Runtime(servers={"s": SCRIPTED}, **options)
    rt.connect()
    pid = rt.servers()[0].pid or 0
    assert alive(pid)
    del rt
    gc.collect()
    wait_until(lambda: not alive(pid))


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()", "os._exit(0)"])
def test_a_host_that_ends_leaves_no_server(options: Dict[str, Any], end: str) -> None:
    program = (
        "import json, os, signal, sys, mcprt\n"
        "rt = mcprt.Runtime(servers=json.loads(sys.argv[2]), **json.loads(sys.argv[1]))\n"
        "rt.connect()\n"
        "print(*[view.pid for view in rt.servers()], flush=True)\n" + end
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(options, default=str), json.dumps({"s": SCRIPTED, "d": demo()})],
        capture_output=True,
        text=True,
        timeout=30,
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2 and done.stderr == ""
    wait_until(lambda: not any(alive(pid) for pid in pids), 2.5)


def test_a_forked_pool_is_told_at_once(options: Dict[str, Any]) -> None:
    program = """
import multiprocessing, mcprt, time
rt = mcprt.Runtime(discovery={"user": "none"})
def work(n):
    before = time.monotonic()
    try:
        rt.list()
    except mcprt.ForkError as error:
        return time.monotonic() - before < 1 and "spawn" in error.message
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, range(4)))
rt.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("[True, True, True, True]\n", "")


def test_nothing_is_written_to_stdout_or_stderr(options: Dict[str, Any]) -> None:
    program = (
        "import json, sys, mcprt\n"
        "servers = json.loads(sys.argv[2])\n"
        "with mcprt.Runtime(servers=servers, **json.loads(sys.argv[1])) as rt:\n"
        "    rt.connect(uncached='background')\n"
        "    try: rt.call('mcp_s_die')\n"
        "    except mcprt.MCPError: pass\n"
    )
    servers = {"s": SCRIPTED, "bad": demo("--fail-start", "noise"), "none": {"command": "/nonexistent"}}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(options, default=str), json.dumps(servers)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_what_an_http_server_sends_unasked_is_not_on_stderr(options: Dict[str, Any]) -> None:
    """Go's net/http reports such an answer by its standard logger, whose default is the host's stderr."""
    program = (
        "import json, sys, mcprt\n"
        "with mcprt.Runtime(servers=json.loads(sys.argv[2]), **json.loads(sys.argv[1])) as rt:\n"
        "    rt.connect()\n"
        "    rt.call('t', server='s')\n"
        "    sys.stdin.read()\n"  # until the server has sent it
    )
    sent = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while stream.readline():
                length = 0
                while (header := stream.readline().strip()):
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                message = json.loads(stream.read(length) or b"{}")
                results = {
                    "initialize": {
                        "protocolVersion": "2025-06-18",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "x", "version": "1"},
                    },
                    "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
                    "tools/call": {"content": []},
                }
                method = message.get("method")
                answer: Dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
                if method in results:
                    answer["result"] = results[method]
                else:
                    answer["error"] = {"code": -32601, "message": "no"}
                body = json.dumps(answer).encode() if "id" in message else b""
                head = f"HTTP/1.1 {200 if body else 405} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
                if method == "tools/call":
                    time.sleep(0.1)  # until the connection is idle
                    connection.sendall(b"HTTP/1.1 200 SECRET\r\n\r\n")
                    while connection.recv(1):  # the client sees it, and closes
                        pass
                    sent.set()
                    return

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        servers = {"s": {"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}}
        host = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(options, default=str), json.dumps(servers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with host:
            sent.wait(20)
            written = host.communicate(timeout=20)
    assert sent.is_set() and (*written, host.returncode) == ("", "", 0)


def test_stats_count_calls_and_their_errors(rt: Runtime) -> None:
    for _ in range(3):
        rt.call("exact", server="s")
    with pytest.raises(mcprt.MCPError):
        rt.call("none", server="s")
    stats = rt.stats()
    server = stats.servers["s"]
    assert server["calls"] == 4 and server["errors"] == {"tool_gone": 1} and server["starts"] == 1
    latency = server["latency"]
    assert latency["count"] == 3 and 0 < latency["p50Ms"] <= latency["p99Ms"] <= latency["maxMs"]
    assert server["bytesIn"] > 3 * len(EXACT) and server["bytesOut"] > 0
    assert stats.data["trace"] is None and repr(stats) == "<Stats of s>"


def test_stats_of_an_async_runtime(options: Dict[str, Any]) -> None:
    async def main() -> None:
        async with AsyncRuntime(servers={"s": SCRIPTED}, **options) as rt:
            await rt.connect()
            await rt.call("exact", server="s")
            assert (await rt.stats()).servers["s"]["calls"] == 1

    asyncio.run(main())


def test_the_trace_context_of_a_call_reaches_the_server(rt: Runtime) -> None:
    meta = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=1",
        "baggage": "b=2",
    }
    received = json.loads(rt.call("meta", server="s", meta=meta).text)
    assert received.pop("progressToken")
    assert received == meta


def test_a_trace_is_written(options: Dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    with Runtime(servers={"s": SCRIPTED}, trace={"file": file, "payload_bytes": 100}, **options) as rt:
        rt.connect()
        rt.call("exact", server="s")
        assert rt.stats().data["trace"]["dropped"] == 0
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert records[0]["type"] == "trace" and records[-1]["type"] == "end"
    calls = [r for r in records if r.get("method") == "tools/call"]
    assert [(r["direction"], r["kind"]) for r in calls] == [("out", "request"), ("in", "response")]


def test_two_runtimes_share_a_server(options: Dict[str, Any]) -> None:
    with Runtime(servers={"s": demo()}, share=True, **options) as one, Runtime(servers={"s": demo()}, share=True, **options) as two:
        one.connect()
        two.connect()
        pid = one.servers()[0].data["pid"]
        assert two.servers()[0].data["pid"] == pid
        one.close()
        assert two.call("mcp_s_echo", {"text": "still here"}).text == "still here"
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_long_text_goes_to_a_file(options: Dict[str, Any], tmp_path: Path) -> None:
    with Runtime(servers={"s": demo()}, spill={"over_bytes": 2000, "dir": tmp_path / "long"}, **options) as rt:
        rt.connect()
        text = "0123456789" * 1000
        result = rt.call("mcp_s_echo", {"text": text})
        (note,) = [note for note in result.data["_meta"]["mcprt/spilled"] if "content" in note]
        assert Path(note["path"]).read_text("utf-8") == text and note["path"] in result.text
    assert not list((tmp_path / "long").iterdir())


def test_shapes_of_providers(rt: Runtime, options: Dict[str, Any]) -> None:
    tools = rt.tools("openai", names=["mcp_s_exact", "mcp_s_env"])
    assert [tool["function"]["name"] for tool in tools] == ["mcp_s_env", "mcp_s_exact"]
    assert (tools.names, tools.revision) == ({}, rt.list().revision)
    assert rt.tools("anthropic", names=["mcp_s_env"])[0]["input_schema"]["type"] == "object"
    result = rt.call("mcp_s_exact", '{"n": 9007199254740993}', format="openai", call_id="c1")
    assert result.raw == EXACT.strip()
    assert (result.message["role"], result.message["tool_call_id"], result.follow_up) == ("tool", "c1", None)
    with pytest.raises(mcprt.InvalidRequestError, match="not valid JSON") as caught:
        rt.call("mcp_s_exact", "{", format="openai", call_id="c2")
    assert caught.value.result is not None and caught.value.result.message["tool_call_id"] == "c2"
    for junk in ([1], 5, "[1]"):  # a model's mistake, of which the model is told
        with pytest.raises(mcprt.InvalidRequestError, match="must be a JSON object") as caught:
            rt.call("mcp_s_exact", junk, format="openai", call_id="c2")  # type: ignore[arg-type]
        assert caught.value.result is not None and caught.value.result.message["tool_call_id"] == "c2"
    # json.loads makes a text without UTF-8 of such an escape.
    half: List[Any] = [{"a": "\ud800"}, types.MappingProxyType({"a": "\ud800"}), '{"a": "\\ud800"}', '{"a": "\ud800"}']
    for written in half:
        assert rt.call("mcp_s_exact", written, format="openai", call_id="c2").raw == EXACT.strip()
    with pytest.raises(mcprt.InvalidRequestError, match="cohere"):
        rt.tools("cohere")  # type: ignore[arg-type]
    with pytest.raises(mcprt.InvalidRequestError, match="must be a mapping"):
        rt.call("mcp_s_exact", "{}")

    async def main() -> None:
        async with AsyncRuntime(servers={"s": SCRIPTED}, **options) as other:
            await other.connect()
            assert (await other.tools("gemini", search="exact"))[0]["name"] == "mcp_s_exact"
            answer = await other.call("mcp_s_env", {"name": "NONE"}, format="gemini", call_id="c3")
            assert answer.message["functionResponse"]["response"] == {"output": "(not set)"}

    asyncio.run(main())


def test_no_framework_comes_along() -> None:
    program = """
import sys
import mcprt
assert not {"langchain_core", "agents", "pydantic", "openai"} & set(sys.modules)
for name, extra in (("langchain", "langchain"), ("openai_agents", "openai-agents")):
    sys.modules["langchain_core"] = sys.modules["agents"] = None
    try:
        __import__("mcprt." + name)
    except ImportError as error:
        assert f"pip install mcprt[{extra}]" in str(error), error
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)

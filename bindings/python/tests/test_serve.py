"""``mcprt serve`` in the place of the library: when it is, and what only it has. test_end_to_end.py runs over it, too."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import mcprt
from mcprt import AsyncRuntime, Runtime, _json, _library, _serve, _tool
from mcprt._errors import Status
from mcprt._serve import ServeLibrary

from .conftest import ROOT, alive, wait_until

TOOL = ROOT / "build" / "mcprt"
DEMO: Dict[str, Any] = {"demo": {"command": str(TOOL), "args": ["demo-server"]}}


@pytest.fixture(autouse=True)
def unloaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    assert TOOL.is_file(), "run 'make build' first"
    monkeypatch.setattr(_library, "_loaded", None)
    monkeypatch.delenv("MCPRT_BACKEND", raising=False)
    monkeypatch.delenv("MCPRT_TOOL", raising=False)
    yield
    loaded = _library._loaded
    if isinstance(loaded, ServeLibrary):
        loaded.shutdown()


@pytest.fixture
def musl(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_glibc(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", no_glibc)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> ServeLibrary:
    monkeypatch.setenv("MCPRT_BACKEND", "serve")
    library = _library.load()
    assert isinstance(library, ServeLibrary)
    return library


@pytest.fixture
def options(tmp_path: Path) -> Dict[str, Any]:
    return {"cwd": tmp_path, "cache": {"enabled": False}, "discovery": {"user": "none"}, "servers": DEMO, "grace": 0.5}


def refusal() -> str:
    with pytest.raises(mcprt.LibraryError) as caught:
        Runtime()
    assert "\n" not in caught.value.message
    return caught.value.message


# ---- which one


def test_on_musl_the_tool_takes_the_place_of_the_library(musl: None, options: Dict[str, Any]) -> None:
    with Runtime(**options) as rt:
        assert rt.connect().connected == ["demo"]
        assert rt.call("mcp_demo_echo", {"text": "hi"}).text == "hi"
    assert isinstance(_library._loaded, ServeLibrary)
    assert mcprt.library_version() == mcprt.__version__


def test_on_musl_without_a_tool(musl: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_tool, "places", lambda: [tmp_path / "mcprt"])
    monkeypatch.setenv("PATH", str(tmp_path))
    message = refusal()
    assert message.startswith("this Python runs on musl (Alpine Linux and others, linux ")
    assert f"was not found: not at {tmp_path}/mcprt, and not on PATH. Install the tool" in message
    # What pip writes for the package of this name runs Python again: no tool.
    (tmp_path / "mcprt").write_text("#!/bin/sh\n")
    (tmp_path / "mcprt").chmod(0o755)
    monkeypatch.setattr(_tool, "places", lambda: [])
    assert _tool.on_path() is None
    (tmp_path / "mcprt").unlink()
    (tmp_path / "mcprt").symlink_to(TOOL)
    assert _library.find_tool() == f"{tmp_path}/mcprt"


def test_on_musl_the_library_cannot_be_asked_for(musl: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPRT_BACKEND", "library")
    assert "runs on musl" in refusal() and "unset MCPRT_BACKEND" in refusal()


def test_a_wrong_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPRT_BACKEND", "pipe")
    assert refusal() == "MCPRT_BACKEND is 'pipe'; it can be \"library\" or \"serve\", or be unset."


@pytest.mark.parametrize(
    "script, why",
    [
        ("exit 4", "did not start: it ended with status 4"),
        ("echo no such command >&2; exit 2", "did not start: it ended with status 2: no such command"),
        ("echo 'this is not a frame, but text in its place'; cat >/dev/null", "did not start: "),
    ],
)
def test_a_tool_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, why: str) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("MCPRT_BACKEND", "serve")
    monkeypatch.setenv("MCPRT_TOOL", str(tmp_path / "none"))
    assert refusal() == f"MCPRT_TOOL names {tmp_path}/none, but there is no such file."
    monkeypatch.setenv("MCPRT_TOOL", str(tool))
    assert "cannot be run: " in refusal()
    tool.chmod(0o755)
    assert why in refusal()


def test_a_tool_that_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("MCPRT_BACKEND", "serve")
    monkeypatch.setenv("MCPRT_TOOL", str(tool))
    monkeypatch.setattr(_serve, "_HELLO_TIMEOUT", 0.1)
    assert refusal().endswith("did not start: it said nothing within 0.1 s")


def test_a_tool_of_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPRT_BACKEND", "serve")
    monkeypatch.setattr(_library, "MINOR", 99)
    assert "needs ABI 0 and at least version 0.99" in refusal()


# ---- the process


def test_one_process_serves_all_runtimes(serve: ServeLibrary, options: Dict[str, Any]) -> None:
    with Runtime(**options) as first, Runtime(**options) as second:
        assert first._library is second._library is serve
        assert first.connect().connected == second.connect().connected == ["demo"]
        first.close()
        assert second.call("mcp_demo_echo", {"text": "hi"}).text == "hi"


def test_when_the_process_dies_everybody_is_told(serve: ServeLibrary, options: Dict[str, Any]) -> None:
    rt = Runtime(**options)
    rt.connect()
    pid = rt.servers()[0].pid
    assert pid is not None
    errors: List[BaseException] = []

    def call() -> None:
        try:
            rt.call("mcp_demo_slow", {"ms": 60_000})
        except mcprt.MCPError as error:
            errors.append(error)

    async def main() -> None:
        async with AsyncRuntime(**options) as aio:
            await aio.connect()
            task = asyncio.ensure_future(aio.call("mcp_demo_slow", {"ms": 60_000}))
            await asyncio.sleep(0.1)
            serve._process.kill()
            with pytest.raises(mcprt.InternalError, match=r'"mcprt serve" has ended \(it was ended by signal 9\); make a new runtime'):
                await task

    thread = threading.Thread(target=call)
    thread.start()
    asyncio.run(main())
    thread.join(10)
    assert [type(error) for error in errors] == [mcprt.InternalError]
    with pytest.raises(mcprt.ClosedError):
        rt.servers()
    rt.close()
    wait_until(lambda: not alive(pid))
    with Runtime(**options) as again:  # in a process of its own
        assert again._library is not serve
        assert again.connect().connected == ["demo"]


def test_an_interrupt_is_the_hosts_business(serve: ServeLibrary, options: Dict[str, Any]) -> None:
    with Runtime(**options) as rt:
        rt.connect()
        serve._process.send_signal(signal.SIGINT)
        assert rt.call("mcp_demo_echo", {"text": "hi"}).text == "hi"


HOST = """
import os, sys, time, mcprt
rt = mcprt.Runtime(cwd=sys.argv[2], cache={"enabled": False}, discovery={"user": "none"},
                   servers={"demo": {"command": sys.argv[1], "args": ["demo-server"]}})
rt.connect()
print(rt.servers()[0].pid, rt._library._process.pid, flush=True)
"""


def host(tmp_path: Path, more: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "MCPRT_BACKEND": "serve", "MCPRT_TOOL": str(TOOL)}
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "ignore:This process:DeprecationWarning", "-c", HOST + more, str(TOOL), str(tmp_path)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "more",
    [
        "time.sleep(60)",
        # A child that lives on must not hold the pipes open.
        "pid = os.fork()\nprint(pid or os.getpid(), flush=True)\ntime.sleep(60)",
    ],
)
def test_a_host_that_is_killed_leaves_nothing(tmp_path: Path, more: str) -> None:
    process = host(tmp_path, more)
    assert process.stdout is not None and process.stderr is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    child = int(process.stdout.readline()) if "fork" in more else 0
    try:
        assert all(alive(pid) for pid in pids)
        process.kill()
        wait_until(lambda: not any(alive(pid) for pid in pids), 10)
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("more", ["", "rt.close()", "del rt", "import gc; del rt; gc.collect()"])
def test_a_host_that_ends_leaves_nothing_and_says_nothing(tmp_path: Path, more: str) -> None:
    out, err = (process := host(tmp_path, more)).communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    wait_until(lambda: not any(alive(int(pid)) for pid in out.split()), 10)


# ---- the functions, where nothing above uses them so


def opened(serve: ServeLibrary, tmp_path: Path, **more: Any) -> int:
    put = {"cwd": str(tmp_path), "cache": {"enabled": False}, "discovery": {"user": "none"}, "servers": DEMO, **more}
    status, handle, reply = serve.open(_json.encode(put))
    assert status == Status.OK, reply
    assert serve.verb(handle, _library.CONNECT, b"{}")[0] == Status.OK
    return handle


SLOW = b'{"tool":"mcp_demo_slow","arguments":{"ms":60000}}'
ECHO = b'{"tool":"mcp_demo_echo","arguments":{"text":"hi"}}'


def test_limits_and_tags(serve: ServeLibrary, tmp_path: Path) -> None:
    handle = opened(serve, tmp_path, maxInFlight=2)
    assert serve.submit(handle, _library.CALL, _library.F_HOLD, 1, SLOW) == Status.OK
    assert serve.submit(handle, _library.CALL, 0, 1, SLOW) == Status.ETAG
    assert serve.submit(handle, _library.CALL, 0, 2, ECHO) == Status.OK
    assert serve.submit(handle, _library.CALL, 0, 3, ECHO) == Status.EBUSY
    reader = serve.reader(handle)
    wait_until(lambda: any(frame.kind == _library.EV_DONE for frame in serve._managers[handle].queue))
    assert serve.wait(handle, -1) == 1
    assert serve.submit(handle, _library.CALL, 0, 3, ECHO) == Status.EBUSY  # not drained yet
    taken = [frame for frame in reader.read() if frame.kind == _library.EV_DONE]
    assert [(frame.tag, frame.status) for frame in taken] == [(2, 0)]
    assert serve.submit(handle, _library.DISCONNECT, 0, 4, b'{"server":"nobody"}') == Status.OK
    assert serve.take_held(handle, 1, 10) == (Status.EAGAIN, b"")
    assert serve.take_held(handle, 9, 10) == (Status.ETAG, b"")
    assert serve.cancel(handle, 1, _library.F_FORGET) == Status.OK
    assert serve.take_held(handle, 1, 10) == (Status.ETAG, b"")
    wait_until(lambda: serve.submit(handle, _library.CALL, _library.F_HOLD, 1, ECHO) == Status.OK)
    status, reply = serve.take_held(handle, 1, 5000)
    assert status == Status.OK and b'"hi"' in reply
    assert serve.close(handle, 0) == serve.close(handle, 0) == Status.OK
    assert serve.submit(handle, _library.CALL, 0, 7, ECHO) == Status.ECLOSED
    assert serve.verb(handle, _library.LIST, b"{}")[0] == Status.ECLOSED
    frames = wait_until(reader.read)
    while not reader.ended:
        frames += reader.read()
    assert frames[-1].kind == _library.EV_CLOSED
    assert serve.wait(handle, -1) == Status.ECLOSED
    serve.free(handle)
    serve.free(handle)
    gone: List[Callable[[], Any]] = [
        lambda: serve.submit(handle, _library.CALL, 0, 8, ECHO),
        lambda: serve.take_held(handle, 8, 0)[0],
        lambda: serve.verb(handle, _library.LIST, b"{}")[0],
        lambda: serve.cancel(handle, 8, 0),
        lambda: serve.wait(handle, 0),
        lambda: serve.notify_fd(handle),
        lambda: serve.close(handle, 0),
    ]
    assert [use() for use in gone] == [Status.EHANDLE] * len(gone)
    assert serve.reader(handle).read() == []


def test_free_ends_who_waits(serve: ServeLibrary, tmp_path: Path) -> None:
    handle = opened(serve, tmp_path)
    assert serve.submit(handle, _library.CALL, _library.F_HOLD, 1, SLOW) == Status.OK
    while serve.reader(handle).read():
        pass
    ends: List[int] = []
    threads = [
        threading.Thread(target=lambda: ends.append(serve.take_held(handle, 1, -1)[0])),
        threading.Thread(target=lambda: ends.append(serve.verb(handle, _library.CALL, SLOW)[0])),
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: serve._managers[handle].blocking)
    serve.free(handle)
    for thread in threads:
        thread.join(5)
    assert ends == [Status.EHANDLE] * 2

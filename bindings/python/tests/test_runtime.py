"""The blocking runtime, against the stub."""

from __future__ import annotations

import contextlib
import gc
import json
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Union

import pytest

import mcprt
from mcprt import Event, Progress, Request, Runtime, _library

from .conftest import wait_until


@pytest.fixture
def rt(stub: str) -> Iterator[Runtime]:
    with Runtime() as runtime:
        yield runtime


def in_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=20)


BOTH_PATHS = pytest.mark.parametrize("where", [lambda f: f(), in_thread], ids=["main thread", "other thread"])
Where = Callable[[Callable[[], Any]], Any]


@BOTH_PATHS
def test_every_verb(rt: Runtime, where: Where) -> None:
    discovery = where(rt.discover)
    assert [server["name"] for server in discovery.servers] == ["demo"]
    assert discovery.diagnostics == discovery.shadowed == discovery.exa_api_keys == []

    report = where(rt.connect)
    assert (report.revision, report.elapsed_seconds, report.connected) == (1, 0.012, ["demo"])
    assert report.deferred == report.pending == report.needs_trust == []
    assert report.errors == {}
    assert [tool.name for tool in report.tools][:3] == ["mcp_demo_ask", "mcp_demo_big", "mcp_demo_echo"]
    view = report.servers[0]
    assert (view.name, view.status, view.state, view.tool_count) == ("demo", "connected", "ready", 8)
    assert (view.protocol_version, view.connect_seconds, view.pid, view.error) == ("2025-11-25", 0.012, 1, None)

    tools = where(rt.list)
    assert tools == sorted(tools, key=lambda tool: tool.name)
    assert tools.revision == 1
    assert where(lambda: rt.list(if_revision=1)) is None
    assert where(rt.servers)[0].name == "demo"
    assert where(rt.resources) == where(rt.resource_templates) == where(rt.prompts) == []

    assert where(lambda: rt.call("mcp_demo_echo", {"text": "hi"})).text == "hi"
    assert where(lambda: rt.call("echo", {"text": "raw"}, server="demo")).text == "raw"
    assert where(lambda: rt.request("demo", "ping")).data == {}
    assert where(lambda: rt.reload("full", gate="eager", uncached="wait")).changes == ([], [], [], ["demo"])
    assert where(lambda: rt.disconnect("demo")) == ["demo"]


def test_a_tool_and_its_exact_bytes(rt: Runtime) -> None:
    tools = rt.list()
    tool = tools[2]
    assert (tool.name, tool.server, tool.tool) == ("mcp_demo_echo", "demo", "echo")
    assert tool.description == "The tool echo of the demo server."
    assert tool.input_schema == {"type": "object", "properties": {}}
    assert tool.output_schema is None
    assert tool.annotations == {"readOnlyHint": True}
    assert not (tool.deferred or tool.stale or tool.unavailable)
    assert tool.fetched_at == "2026-12-01T00:00:00Z"
    assert tool.raw in tools.raw
    assert tool.raw.startswith(b'{"name":"mcp_demo_echo",') and json.loads(tool.raw) == tool.data


@BOTH_PATHS
def test_a_result_keeps_what_the_server_sent(rt: Runtime, where: Where) -> None:
    result = where(lambda: rt.call("mcp_demo_echo", {"text": "a\u2603\u0000b", "n": 9007199254740993}))
    assert result.text == "a\u2603\0b"
    assert result.data["big"] == 9007199254740993
    assert result.raw.startswith(b'{"content":[{"type":"text","text":"a\xe2\x98\x83\\u0000b"}],"big":9007199254740993,')
    assert result.raw.endswith(b'"n":9007199254740993}}')
    assert not result.is_error
    assert result.structured is None and result.meta == {}


def test_a_tool_that_fails_is_a_result_and_a_server_that_fails_is_an_exception(rt: Runtime) -> None:
    failed = rt.call("mcp_demo_error")
    assert failed.is_error and failed.text == "no such file"
    assert repr(failed) == "<CallResult is_error 'no such file'>"
    assert repr(rt.request("demo", "ping")) == "<CallResult {}>"  # what has no text is shown as it came
    for where in (lambda f: f(), in_thread):
        with pytest.raises(mcprt.RPCError, match="on purpose") as caught:
            where(lambda: rt.call("mcp_demo_fail"))
        error = caught.value
        assert (error.code, error.status, error.server, error.tool) == ("rpc_error", -20, "demo", "fail")
        assert error.data["rpcCode"] == -32000
        assert error.result is not None and error.result.text.startswith("MCP error: ")
        with pytest.raises(mcprt.UnknownToolError):
            where(lambda: rt.call("nothing"))


@BOTH_PATHS
def test_timeouts_are_seconds(rt: Runtime, where: Where) -> None:
    before = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        where(lambda: rt.call("mcp_demo_slow", {"ms": 60000}, timeout=0.05))
    assert 0.05 <= time.monotonic() - before < 5
    assert isinstance(caught.value, mcprt.TimeoutError)


def test_open_can_be_refused(stub: str) -> None:
    with pytest.raises(mcprt.InvalidRequestError, match="told to refuse"):
        Runtime(options={"stubRefuse": True})


def test_ten_megabytes(rt: Runtime) -> None:
    assert rt.call("mcp_demo_big", {"bytes": 10_000_000}).text == "x" * 10_000_000
    result = in_thread(lambda: rt.call("mcp_demo_big", {"bytes": 10_000_000}))
    assert len(result.raw) == 10_000_000 + len('{"content":[{"type":"text","text":""}]}')


def test_large_requests(rt: Runtime) -> None:
    text = "y" * 1_000_000
    assert rt.call("mcp_demo_echo", {"text": text}).text == text


def test_many_threads(rt: Runtime) -> None:
    def work(n: int) -> bool:
        return all(rt.call("mcp_demo_echo", {"text": f"{n}.{i}"}).text == f"{n}.{i}" for i in range(20))

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(work, range(100)))


# ---- closing


@BOTH_PATHS
def test_close_is_idempotent_and_everything_after_it_is_an_error(stub: str, where: Where) -> None:
    rt = Runtime()
    where(rt.close)
    where(rt.close)
    for verb in (rt.list, rt.discover, rt.connect, rt.servers, rt.disconnect, lambda: rt.call("mcp_demo_echo")):
        with pytest.raises(mcprt.ClosedError):
            where(verb)
    with pytest.raises(mcprt.ClosedError):
        where(lambda: rt.call("mcp_demo_slow", progress=print))
    assert list(rt.events()) == []
    with rt.events(timeout=1) as events:
        assert list(events) == []


@BOTH_PATHS
def test_close_ends_calls(stub: str, where: Where) -> None:
    rt = Runtime()
    with ThreadPoolExecutor(8) as pool:
        ways: List[Union[bool, Callable[[Progress], None]]] = [False, True, print, print]
        calls = [pool.submit(rt.call, "mcp_demo_hang", progress=progress) for progress in ways * 2]
        time.sleep(0.05)
        where(rt.close)
        for call in calls:
            assert isinstance(call.exception(timeout=5), mcprt.ClosedError)


def test_many_threads_close_at_once(stub: str) -> None:
    rt = Runtime(on_event=lambda event: None)
    with ThreadPoolExecutor(16) as pool:
        for closing in [pool.submit(rt.close, 0.1) for _ in range(16)]:
            closing.result(timeout=5)


def test_the_last_events_are_delivered_before_close_returns(stub: str) -> None:
    seen: List[str] = []
    rt = Runtime(on_event=lambda event: seen.append(event.type))
    rt.connect()
    rt.call("mcp_demo_flood", {"count": 500})
    rt.close()
    assert seen.count("log") == 500
    assert seen[:2] == ["server_state", "tools_changed"]


def test_a_runtime_that_is_forgotten_gives_its_handle_back(stub: str) -> None:
    rt = Runtime(on_event=lambda event: None)
    rt.connect()
    library, handle = rt._library, rt._handle
    thread = rt._pump._thread
    assert thread is not None and library.wait(handle, 0) >= 0
    del rt
    gc.collect()
    assert library.wait(handle, 0) == mcprt._errors.Status.EHANDLE
    thread.join(5)
    assert not thread.is_alive()


# ---- signals and fork


CTRL_C = """
import os, signal, sys, threading, time, mcprt
rt = mcprt.Runtime(on_event=lambda event: None)
def interrupt():
    time.sleep(0.15)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
before = time.monotonic()
try:
    rt.call("mcp_demo_hang", **eval(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - before < 2)
in_flight = lambda: rt._library.take_held(rt._handle, 1, 0)[0]
print("forgotten", in_flight() == mcprt._errors.Status.ETAG)
print(rt.call("mcp_demo_echo", {"text": "still works"}).text)
rt.close()
"""


@pytest.mark.parametrize("arguments", ["{}", "{'progress': True}", "{'progress': print}"])
def test_ctrl_c_ends_a_call_of_the_main_thread(stub: str, arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C, arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted True\nforgotten True\nstill works\n", "")


def test_ctrl_c_without_a_handler_ends_the_process(stub: str) -> None:
    program = "import mcprt; rt = mcprt.Runtime(); print('ready', flush=True); rt.call('mcp_demo_hang')"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=10)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == -signal.SIGINT
    assert stderr.rstrip().endswith("KeyboardInterrupt")


def test_exit_with_calls_in_flight_is_quiet(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import mcprt, threading, time\n"
        "rt = mcprt.Runtime(on_event=print)\n"
        "for progress in (False, True, print):\n"
        "    threading.Thread(target=rt.call, args=('mcp_demo_hang',), kwargs={'progress': progress}, daemon=True).start()\n"
        "time.sleep(0.1)\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


# ---- progress and events


@BOTH_PATHS
def test_progress_is_complete_when_the_call_returns(rt: Runtime, where: Where) -> None:
    for _ in range(20):
        seen: List[Progress] = []
        where(lambda: rt.call("mcp_demo_slow", {"ms": 0}, progress=seen.append))
        assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


def test_what_a_progress_callback_raises_ends_the_call(rt: Runtime) -> None:
    def callback(progress: Progress) -> None:
        raise LookupError(f"at {progress.progress}")

    with pytest.raises(LookupError, match="at 1"):
        rt.call("mcp_demo_slow", {"ms": 60000}, progress=callback)
    assert rt.call("mcp_demo_echo", {"text": "on"}).text == "on"


@BOTH_PATHS
def test_progress_as_events(rt: Runtime, where: Where) -> None:
    with rt.events(timeout=5) as events:
        where(lambda: rt.call("mcp_demo_slow", {"ms": 0}, progress=True))
        steps = [next(events) for _ in range(3)]
    assert [event.data["progress"] for event in steps] == [1, 2, 3]
    assert {event.type for event in steps} == {"progress"}
    assert json.loads(steps[0].raw) == steps[0].data


def test_the_first_stream_has_what_happened_before(rt: Runtime) -> None:
    rt.connect()
    with rt.events(timeout=0.1) as events:
        assert [event.type for event in events] == ["server_state", "tools_changed"]


def test_each_stream_has_all_events_and_ends_with_the_runtime(stub: str) -> None:
    rt = Runtime()
    streams = [rt.events() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(list, stream) for stream in streams]
        rt.call("mcp_demo_flood", {"count": 50})
        rt.close()
        for reader in readers:
            assert [event.data["data"] for event in reader.result(timeout=5)] == list(range(1, 51))


def test_a_closed_stream_ends_its_reader_and_gets_no_more(rt: Runtime) -> None:
    stream = rt.events()
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(list, stream)
        stream.close()
        assert reader.result(timeout=5) == []
    assert rt._pump._streams == ()


def test_notices_that_the_library_dropped_are_an_event(stub: str) -> None:
    with Runtime(max_notices=10) as rt:
        rt.call("mcp_demo_flood", {"count": 100})
        with rt.events(timeout=0.2) as stream:
            events = list(stream)
    assert [event.type for event in events] == ["log"] * 10 + ["dropped"]
    assert events[-1].data == {"type": "dropped", "count": 90}


def test_a_stream_that_is_not_read_keeps_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprt._events._MAX_EVENTS", 20)
    stream = mcprt.EventStream(0.01, lambda stream: None)
    for n in range(100):
        stream.push(Event(b"{}" if n < 50 else b'{"type":"later"}'))
    stream.push(Event.dropped(1000))
    got = list(stream)
    assert [event.raw for event in got[:-1]] == [b"{}"] * 20
    assert got[-1].data == {"type": "dropped", "count": 1080}
    stream.push(Event(b'{"type":"after"}'))
    assert [event.type for event in stream] == ["after"]


def test_a_stream_that_is_not_read_keeps_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprt._events._MAX_BYTES", 100)
    stream = mcprt.EventStream(0.01, lambda stream: None)
    for _ in range(2):
        for _ in range(10):
            stream.push(Event(b'{"text":"%s"}' % (b"x" * 20)))
        got = list(stream)
        assert (len(got), got[-1].data) == (4, {"type": "dropped", "count": 7})


def test_an_exception_in_on_event_is_logged_and_stops_nothing(stub: str, caplog: pytest.LogCaptureFixture) -> None:
    seen: List[Event] = []

    def on_event(event: Event) -> None:
        seen.append(event)
        raise ValueError("host's own fault")

    with Runtime(on_event=on_event) as rt:
        rt.call("mcp_demo_flood", {"count": 3})
    assert len(seen) == 3
    assert caplog.text.count("on_event raised an exception") == 3


def test_a_callback_may_close_the_runtime(stub: str) -> None:
    closed = threading.Event()

    def on_event(event: Event) -> None:
        runtime.close()
        closed.set()

    runtime = Runtime(on_event=on_event)
    with contextlib.suppress(mcprt.ClosedError):
        runtime.connect()
    assert closed.wait(5)
    with pytest.raises(mcprt.ClosedError):
        runtime.list()


# ---- requests to the host


def test_a_handler_answers(stub: str) -> None:
    def elicit(request: Request) -> Dict[str, Any]:
        assert (request.kind, request.type, request.server) == ("elicitation", "elicitation/create", "demo")
        assert request.params["message"] == "Your name?"
        assert (request.timeout, request.attempt, request.ended) == (300.0, 1, False)
        return {"action": "accept", "content": {"name": "Ada"}}

    with Runtime(on_request={"elicitation": elicit}) as rt:
        assert rt.call("mcp_demo_ask").data["answer"] == {"action": "accept", "content": {"name": "Ada"}}
        assert in_thread(lambda: rt.call("mcp_demo_ask")).data["answer"]["action"] == "accept"
        wait_until(lambda: not rt._pump._requests)


@pytest.mark.parametrize(
    ("raised", "sent"),
    [
        (ValueError("secret detail"), (-32603, "the host's handler failed with ValueError")),
        (mcprt.ReplyError("user said no", -1), (-1, "user said no")),
        (SystemExit(3), (-32603, "the host's handler failed with SystemExit")),
    ],
)
def test_a_handler_that_raises_answers_with_an_error(
    stub: str, monkeypatch: pytest.MonkeyPatch, raised: BaseException, sent: Any
) -> None:
    def elicit(request: Request) -> None:
        raise raised

    replies: List[bytes] = []
    with Runtime(on_request={"elicitation": elicit}) as rt:
        reply = rt._pump._reply

        def record(tag: int, data: bytes) -> None:
            replies.append(data)
            reply(tag, data)

        monkeypatch.setattr(rt._pump, "_reply", record)
        with pytest.raises(mcprt.RPCError, match="the host answered with an error"):
            rt.call("mcp_demo_ask")
    assert [json.loads(data)["error"] for data in replies] == [{"code": sent[0], "message": sent[1]}]


def test_an_answer_that_is_no_json_is_an_error_for_the_server(stub: str, caplog: pytest.LogCaptureFixture) -> None:
    with Runtime(on_request={"elicitation": lambda request: {"when": object()}}) as rt:
        with pytest.raises(mcprt.RPCError, match="the host answered with an error"):
            rt.call("mcp_demo_ask")
    assert "the elicitation handler failed" in caplog.text


def test_a_handler_may_decline_and_a_missing_one_does(stub: str) -> None:
    def decline(request: Request) -> None:
        return None

    for kind in ("elicitation", "sampling"):
        with Runtime(on_request={kind: decline}) as rt:
            with pytest.raises(mcprt.CanceledError, match="declined"):
                rt.call("mcp_demo_ask")


def test_a_handler_learns_that_nobody_waits(stub: str) -> None:
    entered, left = threading.Event(), threading.Event()

    def elicit(request: Request) -> Dict[str, Any]:
        entered.set()
        assert request.wait_ended(10)
        assert request.ended
        left.set()
        return {"too": "late"}

    with Runtime(on_request={"elicitation": elicit}, options={"requestTimeoutMs": 50}) as rt:
        with pytest.raises(mcprt.TimeoutError, match="nobody answered"):
            rt.call("mcp_demo_ask")
        assert left.wait(5)
    entered.clear()
    left.clear()
    with Runtime(on_request={"elicitation": elicit}) as rt:
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(rt.call, "mcp_demo_ask")
            assert entered.wait(5)
            rt.close()
            assert isinstance(call.exception(5), mcprt.ClosedError)
    assert left.wait(5)


def test_requests_without_end_do_not_make_threads_without_end(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprt._dispatch._MAX_REQUESTS", 2)
    go = threading.Event()

    def elicit(request: Request) -> Dict[str, Any]:
        assert go.wait(10)
        return {}

    with Runtime(on_request={"elicitation": elicit}) as rt, ThreadPoolExecutor(5) as pool:
        calls = [pool.submit(rt.call, "mcp_demo_ask") for _ in range(5)]
        wait_until(lambda: sum(call.done() for call in calls) == 3)
        go.set()
        errors = [call.exception(5) for call in calls]
    assert sorted(type(error).__name__ for error in errors) == ["NoneType"] * 2 + ["RPCError"] * 3


def test_a_handler_may_use_the_runtime(stub: str) -> None:
    def elicit(request: Request) -> Dict[str, Any]:
        return {"name": runtime.call("mcp_demo_echo", {"text": "inner"}).text}

    with Runtime(on_request={"elicitation": elicit}) as runtime:
        assert runtime.call("mcp_demo_ask").data["answer"] == {"name": "inner"}


def test_busy_is_an_error_that_can_be_retried(stub: str) -> None:
    with Runtime(max_in_flight=2) as rt, ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(rt.call, "mcp_demo_hang", progress=True) for _ in range(2)]
        tries = iter(range(1000))

        def busy() -> bool:
            try:
                rt.call("mcp_demo_echo", {"text": str(next(tries))})
            except mcprt.BusyError as error:
                return error.retryable
            return False

        wait_until(busy)
        rt.close()
        assert all(isinstance(call.exception(5), mcprt.ClosedError) for call in calls)

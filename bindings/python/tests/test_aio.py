"""The asyncio runtime, against the stub. Every test runs on a loop that watches descriptors and on one that cannot."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import json
import os
import threading
import time
from typing import Any, Awaitable, Callable, Coroutine, Dict, List

import pytest

import mcprt
from mcprt import AsyncRuntime, Event, Progress, Request, Runtime
from mcprt._frames import FrameReader
from mcprt._errors import Status

pytestmark = pytest.mark.usefixtures("stub")


class DescriptorlessLoop(asyncio.SelectorEventLoop):
    """Like the Proactor loop of Windows."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.SelectorEventLoop, DescriptorlessLoop], ids=["reader", "thread"])
def run(request: pytest.FixtureRequest) -> Run:
    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with contextlib.closing(request.param()) as loop:
            asyncio.set_event_loop(loop)
            try:
                return loop.run_until_complete(asyncio.wait_for(main, 20))
            finally:
                asyncio.set_event_loop(None)

    return run


async def until(true: Callable[[], Any]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not true within 5 s")


def test_every_verb(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:
            assert [server["name"] for server in (await rt.discover()).servers] == ["demo"]
            assert (await rt.connect()).connected == ["demo"]
            tools = await rt.list()
            assert [tool.tool for tool in tools][2] == "echo"
            assert await rt.list(if_revision=tools.revision) is None
            assert (await rt.servers())[0].state == "ready"
            assert await rt.resources() == await rt.resource_templates() == await rt.prompts() == []
            assert (await rt.call("mcp_demo_echo", {"text": "hi"})).text == "hi"
            assert (await rt.call("echo", {"text": "hi"}, server="demo")).data["big"] == 9007199254740993
            assert (await rt.request("demo", "ping")).data == {}
            assert (await rt.reload()).changes.kept == ["demo"]
            assert await rt.disconnect() == ["demo"]

    run(main())


def test_both_runtimes_have_the_same_surface() -> None:
    def surface(cls: type) -> Dict[str, Any]:
        return {name: getattr(cls, name) for name in vars(cls) if not name.startswith("_") or name == "__init__"}

    blocking, aio = surface(Runtime), surface(AsyncRuntime)
    assert blocking.keys() == aio.keys()
    for name in blocking.keys() - {"events", "__init__"}:
        assert inspect.signature(blocking[name]) == inspect.signature(aio[name]), name
        assert inspect.iscoroutinefunction(aio[name])
        assert blocking[name].__doc__ and aio[name].__doc__
    assert list(inspect.signature(Runtime).parameters) == list(inspect.signature(AsyncRuntime).parameters)


def test_errors_are_the_same(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:
            with pytest.raises(mcprt.RPCError) as caught:
                await rt.call("mcp_demo_fail")
            assert caught.value.result is not None and caught.value.result.is_error
            with pytest.raises(TimeoutError):
                await rt.call("mcp_demo_slow", {"ms": 60000}, timeout=0.05)
            with pytest.raises(ValueError, match="JSON"):
                await rt.call("mcp_demo_echo", {"text": float("nan")})
            assert rt._pump.pending == {}

    run(main())


def test_a_thousand_calls_in_flight(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:
            results = await asyncio.gather(*(rt.call("mcp_demo_slow", {"ms": 50 + n % 7}) for n in range(1000)))
            assert [result.text for result in results] == [f"slept {50 + n % 7} ms" for n in range(1000)]

    run(main())


def test_a_thousand_cancelled_calls_are_cancelled_at_the_server(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime(max_in_flight=1000) as rt:
            calls = [asyncio.create_task(rt.call("mcp_demo_hang")) for _ in range(1000)]
            await until(lambda: len(rt._pump.pending) == 1000)
            for call in calls:
                call.cancel()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in done)
            assert rt._pump.pending == {}
            # There is room only when the server has ended them: a hanging call ends in no other way.
            results = await asyncio.gather(*(rt.call("mcp_demo_echo", {"text": str(n)}) for n in range(1000)))
            assert [result.text for result in results] == [str(n) for n in range(1000)]

    run(main())


def test_a_timeout_of_asyncio_cancels(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(rt.call("mcp_demo_hang"), 0.05)
            assert rt._pump.pending == {}

    run(main())


def test_cancelling_after_the_result_has_come_is_harmless(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:
            for _ in range(50):
                call = asyncio.create_task(rt.call("mcp_demo_echo", {"text": "x"}))
                await until(lambda: all(future.done() for future in rt._pump.pending.values()))
                call.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await call
            assert (await rt.call("mcp_demo_echo", {"text": "on"})).text == "on"

    run(main())


def test_ten_megabytes(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:
            big, small = await asyncio.gather(
                rt.call("mcp_demo_big", {"bytes": 10_000_000}), rt.call("mcp_demo_echo", {"text": "y" * 1_000_000})
            )
            assert big.text == "x" * 10_000_000
            assert small.text == "y" * 1_000_000
            reader = rt._pump.reader
            assert isinstance(reader, FrameReader) and len(reader._buffer) == 256 * 1024

    run(main())


def test_the_loop_stays_responsive_under_a_flood(run: Run) -> None:
    async def main() -> None:
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with AsyncRuntime(max_in_flight=100000) as rt:
            ticking = asyncio.create_task(tick())
            await asyncio.gather(*(rt.call("mcp_demo_big", {"bytes": 100_000}) for _ in range(200)))
            ticking.cancel()
            assert turns > 3

    run(main())


# ---- back-pressure


def test_busy_waits_for_room(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime(max_in_flight=5) as rt:
            results = await asyncio.gather(*(rt.call("mcp_demo_slow", {"ms": n % 3}) for n in range(300)))
            assert [result.text for result in results] == [f"slept {n % 3} ms" for n in range(300)]
            assert not rt._pump.room

    run(main())


def test_busy_is_first_come_first_served(run: Run) -> None:
    async def main() -> None:
        order: List[int] = []

        async def call(rt: AsyncRuntime, n: int) -> None:
            await rt.call("mcp_demo_slow", {"ms": 1})
            order.append(n)

        async with AsyncRuntime(max_in_flight=1) as rt:
            await asyncio.gather(*(call(rt, n) for n in range(30)))
        assert order == list(range(30))

    run(main())


def test_busy_gives_up_after_the_timeout(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime(max_in_flight=1, timeout=0.05) as rt:
            hang = asyncio.create_task(rt.call("mcp_demo_hang", timeout=60))
            await until(lambda: rt._pump.pending)
            before = time.monotonic()
            with pytest.raises(mcprt.BusyError):
                await rt.call("mcp_demo_echo", {"text": "own timeout"}, timeout=0.1)
            assert 0.1 <= time.monotonic() - before < 5
            with pytest.raises(mcprt.BusyError):
                await rt.call("mcp_demo_echo", {"text": "the runtime's timeout"})
            assert await rt.disconnect() == ["demo"]  # never refused
            hang.cancel()
            assert (await rt.call("mcp_demo_echo", {"text": "room"}, timeout=5)).text == "room"

    run(main())


def test_a_waiter_that_is_cancelled_passes_its_turn_on(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime(max_in_flight=1) as rt:
            for _ in range(20):
                calls = [asyncio.create_task(rt.call("mcp_demo_slow", {"ms": 1})) for _ in range(6)]
                await asyncio.sleep(0.002)
                for call in calls[:5]:
                    call.cancel()
                assert (await asyncio.wait_for(calls[5], 5)).text == "slept 1 ms"

    run(main())


def test_closing_wakes_those_who_wait_for_room(run: Run) -> None:
    async def main() -> None:
        rt = AsyncRuntime(max_in_flight=1)
        calls = [asyncio.create_task(rt.call("mcp_demo_hang")) for _ in range(10)]
        await until(lambda: len(rt._pump.pending) == 10)
        await rt.close()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [mcprt.ClosedError] * 10

    run(main())


# ---- closing


def test_close_ends_calls_and_is_idempotent(run: Run) -> None:
    async def main() -> None:
        rt = AsyncRuntime()
        fd = rt._pump._fd
        calls = [asyncio.create_task(rt.call("mcp_demo_hang")) for _ in range(50)]
        await until(lambda: len(rt._pump.pending) == 50)
        await asyncio.gather(rt.close(), rt.close(0.1))
        await rt.close()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [mcprt.ClosedError] * 50
        for verb in (rt.list, rt.discover, rt.connect, lambda: rt.call("mcp_demo_echo")):
            with pytest.raises(mcprt.ClosedError):
                await verb()
        assert [event async for event in rt.events()] == []
        if fd >= 0:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)

    run(main())


def test_closing_goes_on_when_its_task_is_cancelled(run: Run) -> None:
    async def main() -> None:
        rt = AsyncRuntime()
        closing = asyncio.create_task(rt.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await rt.close()
        assert rt._library.wait(rt._handle, 0) == Status.EHANDLE

    run(main())


def test_a_runtime_that_is_forgotten_gives_its_handle_back(run: Run) -> None:
    async def main() -> None:
        rt = AsyncRuntime()
        await rt.connect()
        library, handle, pump, fd = rt._library, rt._handle, rt._pump, rt._pump._fd
        del rt
        gc.collect()
        assert library.wait(handle, 0) == Status.EHANDLE
        await asyncio.wait_for(pump.ended, 5)
        if fd >= 0:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)

    run(main())


def test_a_loop_that_ends_without_close_leaves_no_descriptor(run: Run) -> None:
    kept: List[AsyncRuntime] = []

    async def main() -> None:
        kept.append(AsyncRuntime())

    run(main())
    pump = kept[0]._pump
    kept.clear()
    gc.collect()
    assert pump._fd == -1


# ---- which loop


def test_it_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncRuntime()


def test_another_loop_is_refused(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:

            def elsewhere() -> None:
                with pytest.raises(RuntimeError, match="belongs to another event loop"):
                    asyncio.run(rt.list())

            await asyncio.get_running_loop().run_in_executor(None, elsewhere)
            assert len(await rt.list()) == 8

    run(main())


def test_any_loop_may_close_it(run: Run) -> None:
    async def make() -> AsyncRuntime:
        return AsyncRuntime()

    async def main() -> None:
        rt = await make()  # its own loop runs on
        hanging = asyncio.ensure_future(rt.call("mcp_demo_hang"))
        await asyncio.sleep(0)
        for _ in range(2):
            await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(rt.close()))
        with pytest.raises(mcprt.ClosedError):
            await hanging
        with pytest.raises(mcprt.ClosedError):
            await rt.list()

    run(main())
    rt = asyncio.run(make())  # its own loop is gone
    for _ in range(2):
        asyncio.run(rt.close())
    assert rt._pump._fd == -1


def test_many_loops_at_once(run: Run) -> None:
    async def main(n: int) -> None:
        async with AsyncRuntime() as rt:
            texts = [(await rt.call("mcp_demo_echo", {"text": f"{n}.{i}"})).text for i in range(50)]
            assert texts == [f"{n}.{i}" for i in range(50)]

    done: List[int] = []

    def loop(n: int) -> None:
        asyncio.run(main(n))
        done.append(n)

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(done) == list(range(8))


def test_a_forked_child_neither_reads_the_parents_wakes_nor_hangs(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import asyncio, os, sys, mcprt\n"
        "async def main():\n"
        "    async with mcprt.AsyncRuntime() as rt:\n"
        "        call = asyncio.create_task(rt.call('mcp_demo_slow', {'ms': 100}))\n"
        "        await asyncio.sleep(0.02)\n"
        "        if os.fork() == 0:\n"
        "            try: await rt.list()\n"
        "            except mcprt.ForkError as err: print('child', err.code, flush=True)\n"
        "            rt._pump._readable()\n"
        "            os._exit(0)\n"
        "        print((await call).text)\n"
        "        os.wait()\n"
        "asyncio.run(main())\n"
    )
    assert (sorted(done.stdout.splitlines()), done.stderr) == (["child fork", "slept 100 ms"], "")


# ---- progress and events


def test_progress_is_complete_when_the_call_returns(run: Run) -> None:
    async def main() -> None:
        async with AsyncRuntime() as rt:
            for _ in range(20):
                seen: List[Progress] = []
                await rt.call("mcp_demo_slow", {"ms": 0}, progress=seen.append)
                assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
            assert rt._pump.progress == {}

    run(main())


def test_what_a_progress_callback_raises_ends_the_call(run: Run) -> None:
    def callback(progress: Progress) -> None:
        raise LookupError(f"at {progress.progress}")

    async def main() -> None:
        async with AsyncRuntime() as rt:
            with pytest.raises(LookupError, match="at 1"):
                await rt.call("mcp_demo_slow", {"ms": 60000}, progress=callback)

    run(main())


def test_events(run: Run) -> None:
    async def main() -> None:
        seen: List[Event] = []
        async with AsyncRuntime(on_event=seen.append, max_notices=10) as rt:
            stream = rt.events()
            await rt.connect()
            await rt.call("mcp_demo_flood", {"count": 5})
            got = [await stream.__anext__() for _ in range(7)]
            assert [event.type for event in got] == ["server_state", "tools_changed", *["log"] * 5]
            closed = rt.events()
            await rt.call("mcp_demo_flood", {"count": 100000})
            await closed.aclose()
            assert [event async for event in closed] == []
            reading = asyncio.create_task(drained(rt.events()))
            await asyncio.sleep(0)
        got += [event async for event in stream]
        assert await reading == 0
        assert sum(event.data.get("count", 1) for event in got[7:]) == 100000
        assert any(event.type == "dropped" for event in got)
        assert sum(event.data.get("count", 1) for event in seen) == 100007

    async def drained(stream: mcprt.AsyncEventStream) -> int:
        async with stream:
            return len([event async for event in stream])

    run(main())


# ---- requests to the host


async def coroutine_handler(request: Request) -> Dict[str, Any]:
    await asyncio.sleep(0)
    return {"name": request.params["message"]}


def plain_handler(request: Request) -> Dict[str, Any]:
    return {"name": request.params["message"]}


@pytest.mark.parametrize("handler", [coroutine_handler, plain_handler])
def test_a_handler_answers(run: Run, handler: Any) -> None:
    async def main() -> None:
        async with AsyncRuntime(on_request={"elicitation": handler}) as rt:
            results = await asyncio.gather(*(rt.call("mcp_demo_ask") for _ in range(20)))
            assert [result.data["answer"] for result in results] == [{"name": "Your name?"}] * 20
            await until(lambda: not rt._pump._requests and not rt._pump._tasks)

    run(main())


def test_a_handler_that_raises_or_declines(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(request: Request) -> None:
        raise ValueError("host's own business")

    async def declines(request: Request) -> None:
        return None

    async def main(handler: Callable[[Request], Awaitable[None]], error: type) -> None:
        async with AsyncRuntime(on_request={"elicitation": handler}) as rt:
            with pytest.raises(error):
                await rt.call("mcp_demo_ask")

    run(main(fails, mcprt.RPCError))
    assert "the elicitation handler failed" in caplog.text
    run(main(declines, mcprt.CanceledError))


def test_a_handler_is_cancelled_when_nobody_waits(run: Run) -> None:
    async def main() -> None:
        ends: List[bool] = []
        entered = asyncio.Event()

        async def never(request: Request) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ends.append(request.ended)

        rt = AsyncRuntime(on_request={"elicitation": never}, options={"requestTimeoutMs": 50})
        with pytest.raises(mcprt.TimeoutError):
            await rt.call("mcp_demo_ask")
        await until(lambda: ends == [True])
        await rt.close()

        rt = AsyncRuntime(on_request={"elicitation": never})
        entered.clear()
        call = asyncio.create_task(rt.call("mcp_demo_ask"))
        await entered.wait()
        call.cancel()
        await until(lambda: ends == [True, True])

        entered.clear()
        call = asyncio.create_task(rt.call("mcp_demo_ask"))
        await entered.wait()
        await rt.close()
        with pytest.raises(mcprt.ClosedError):
            await call
        await until(lambda: ends == [True, True, True])

    run(main())


def test_a_handler_may_use_the_runtime(run: Run) -> None:
    async def main() -> None:
        async def elicit(request: Request) -> Dict[str, Any]:
            return {"name": (await rt.call("mcp_demo_echo", {"text": "inner"})).text}

        async with AsyncRuntime(on_request={"elicitation": elicit}) as rt:
            assert json.loads((await rt.call("mcp_demo_ask")).raw)["answer"] == {"name": "inner"}

    run(main())

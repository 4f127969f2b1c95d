"""The runtime for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterable, List, Mapping, Optional, Tuple, TypeVar, Union, overload

from . import _arguments, _library, _operations
from ._dispatch import Dispatcher
from ._errors import FORKED, ClosedError, ForkError, Status, error_from
from ._events import AsyncEventStream, AsyncHandler, OnEvent, Request
from ._frames import Frame
from ._library import Library
from ._operations import OnProgress, Operation
from ._options import Options, encode_options, milliseconds, path_of
from ._runtime import Runtime
from ._types import (
    CallResult,
    ConnectReport,
    Discovery,
    FormattedTools,
    Json,
    Listing,
    ReloadReport,
    ServerView,
    Stats,
    Tool,
)

if TYPE_CHECKING:
    from typing_extensions import Literal, Self, Unpack

    from ._operations import Format
    from ._options import Path

T = TypeVar("T")

# Drains in one turn of the loop; other tasks get their turn in between.
_DRAINS = 16
# How long an operation waits for room in the queue where neither it nor the runtime has a timeout of its own.
_ROOM_TIMEOUT = 30.0


class _Room:
    """Operations that the library had no room for (MCPRT_EBUSY), first come first served."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: Deque[asyncio.Future[bool]] = deque()

    def __bool__(self) -> bool:
        return any(not waiter.done() for waiter in self._waiting)

    async def wait(self, seconds: float, first: bool) -> bool:
        """True when it is the caller's turn to try, who then calls :meth:`wake` unless there was no room after all."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        (self._waiting.appendleft if first else self._waiting.append)(waiter)
        timer = None if seconds == math.inf else self._loop.call_later(max(0.0, seconds), _settle, waiter, False)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.wake()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


class LoopPump(Dispatcher[AsyncEventStream]):
    """Brings frames to an event loop: all of it, futures too, is touched in the loop's thread only."""

    def __init__(
        self,
        library: Library,
        handle: int,
        loop: asyncio.AbstractEventLoop,
        on_event: Optional[OnEvent],
        handlers: Mapping[str, AsyncHandler],
    ) -> None:
        super().__init__(library, handle, on_event, handlers)
        self.pending: Dict[int, asyncio.Future[Tuple[int, bytes]]] = {}
        self.room = _Room(loop)
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._generation = _library.generation
        self._tasks: Dict[int, asyncio.Task[None]] = {}
        self._fd = library.notify_fd(handle)
        if self._fd >= 0:
            try:
                loop.add_reader(self._fd, self._readable)
                return
            except NotImplementedError:
                os.close(self._fd)
                self._fd = -1
        # Windows, and loops that watch no descriptors.
        threading.Thread(target=self._watch, name="mcprt-events", daemon=True).start()

    def _readable(self) -> None:
        if self._generation != _library.generation or self._fd < 0:
            return  # a forked child would take its parent's wake-ups
        try:
            while len(os.read(self._fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass
        self._drain()

    def _drain(self) -> None:
        for _ in range(_DRAINS):
            frames = self.reader.read()
            if not frames:
                break
            self.dispatch(frames)
        else:
            self._loop.call_soon(self._drain)
        self._after()

    def _after(self) -> None:
        self.room.wake()
        if self.reader.ended:
            self.stop()

    def _watch(self) -> None:
        """In a thread: waits and drains, and hands over batch by batch, so that the library's bounds still hold."""
        while not self.reader.ended and self.library.wait(self.handle, -1) >= 0:
            if not self._in_loop(self.reader.read()):
                return

    def _in_loop(self, frames: List[Frame]) -> bool:
        handled = threading.Event()

        def handle() -> None:
            try:
                self.dispatch(frames)
                self._after()
            finally:
                handled.set()

        try:
            self._loop.call_soon_threadsafe(handle)
            while not handled.wait(1.0):
                if self._loop.is_closed():
                    return False
        except RuntimeError:  # the loop is closed
            return False
        return True

    def stop(self) -> None:
        """In the loop: nothing more will come."""
        if self.ended.done():
            return
        self.ended.set_result(None)
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
        self._close_fd()
        for future in self.pending.values():
            _settle(future, (Status.ECLOSED, b""))
        for tag in list(self._requests):
            self._request_over(tag, Status.ECLOSED)
        while self.room:
            self.room.wake()
        self.end_streams()

    def release(self) -> None:
        """From any thread, when the runtime is gone: :meth:`stop`, and the handle back."""
        self.library.free(self.handle)
        if self._generation != _library.generation:
            return
        try:
            self._loop.call_soon_threadsafe(self.stop)
        except RuntimeError:  # the loop is closed
            self._close_fd()

    def _close_fd(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def complete(self, tag: int, status: int, reply: bytes) -> None:
        future = self.pending.get(tag)
        if future is not None:
            _settle(future, (status, reply))

    def fail(self, tag: int, error: Exception) -> None:
        future = self.pending.get(tag)
        if future is not None and not future.done():
            future.set_exception(error)

    def start_handler(self, tag: int, request: Request, handler: AsyncHandler) -> None:
        self._tasks[tag] = self._loop.create_task(self._handle(tag, request, handler))

    def handler_over(self, tag: int) -> None:
        task = self._tasks.pop(tag, None)
        if task is not None:
            task.cancel()

    async def _handle(self, tag: int, request: Request, handler: AsyncHandler) -> None:
        try:
            answer = handler(request)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:
            self.answer_error(tag, error)
        except asyncio.CancelledError:
            if not request.ended:
                self.answer(tag, None)
            raise
        else:
            self.answer(tag, answer)


class AsyncRuntime:
    """The MCP servers of one project, for asyncio.

    ::

        async with mcprt.AsyncRuntime(cwd=".", project_trust="always") as rt:
            await rt.connect()
            print((await rt.call("mcp_demo_echo", {"text": "hi"})).text)

    Make one inside a running event loop; it belongs to that loop, except for :meth:`close`. Verbs, options and errors are those of
    :class:`Runtime`. Cancelling a task that awaits a verb cancels the operation at the server. Where the library has
    no room for another operation, the verb waits for it, at most for its timeout.

    Callbacks run in the loop: ``on_event`` is a plain function; handlers of ``on_request`` may also be coroutine
    functions, and are cancelled when nobody waits for their answer any more.
    """

    def __init__(
        self,
        *,
        options: Optional[Mapping[str, Any]] = None,
        on_event: Optional[OnEvent] = None,
        on_request: Optional[Mapping[str, AsyncHandler]] = None,
        library: Optional[Path] = None,
        **keywords: Unpack[Options],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        handlers = _arguments.handlers(on_request)
        _arguments.function("on_event", on_event)
        encoded = encode_options(keywords, options, sorted(handlers))
        self._library = _library.load(None if library is None else path_of(library))
        self._generation = _library.generation
        status, self._handle, reply = self._library.open(encoded)
        if status != Status.OK:
            raise error_from(status, reply)
        try:
            self._pump = LoopPump(self._library, self._handle, self._loop, on_event, handlers)
        except BaseException:
            self._library.free(self._handle)
            raise
        self._finalizer = weakref.finalize(self, self._pump.release)
        self._tags = itertools.count(1)
        self._room_timeout = keywords.get("timeout", _ROOM_TIMEOUT)
        self._closing: Optional[asyncio.Task[None]] = None

    async def close(self, grace: Optional[float] = None) -> None:
        """As :meth:`Runtime.close`. Goes on in the background where the task that awaits it is cancelled.

        The one verb that may be awaited in any event loop, also when the runtime's own has ended: clean-up code runs
        where it must.
        """
        if self._generation != _library.generation:
            raise ForkError(FORKED)
        here = asyncio.get_running_loop()
        if here is not self._loop:
            if self._loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(grace), self._loop))
            else:
                await here.run_in_executor(None, self._close_without_loop, grace)
            return
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(grace))
        await asyncio.shield(self._closing)

    async def _close(self, grace: Optional[float]) -> None:
        try:
            await self._run(_operations.close(grace))
        except ClosedError:
            pass  # its own completion may say so
        await self._pump.ended
        self._finalizer()

    def _close_without_loop(self, grace: Optional[float]) -> None:
        """In a thread, where nobody drains any more."""
        self._library.close(self._handle, -1 if grace is None else milliseconds(grace))
        self._finalizer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- the verbs, see Runtime

    async def discover(self) -> Discovery:
        """As :meth:`Runtime.discover`."""
        return await self._run(_operations.discover())

    async def connect(
        self,
        only: Optional[Iterable[str]] = None,
        *,
        servers: Optional[Mapping[str, Mapping[str, Any]]] = None,
        startup_timeout: Optional[float] = None,
        uncached: Optional[Literal["wait", "background"]] = None,
        gate: Optional[Literal["timer", "eager"]] = None,
        trust: Optional[Mapping[str, str]] = None,
        authorize: Optional[Iterable[str]] = None,
        restart: bool = False,
        tools: bool = True,
    ) -> ConnectReport:
        """As :meth:`Runtime.connect`."""
        return await self._run(
            _operations.connect(
                only, servers, startup_timeout, uncached, gate, trust, authorize, restart, tools
            )
        )

    @overload
    async def list(
        self,
        *,
        server: Optional[str] = ...,
        names: Optional[Iterable[str]] = ...,
        search: Optional[str] = ...,
        refresh: bool = ...,
        if_revision: None = ...,
    ) -> Listing[Tool]: ...

    @overload
    async def list(
        self,
        *,
        server: Optional[str] = ...,
        names: Optional[Iterable[str]] = ...,
        search: Optional[str] = ...,
        refresh: bool = ...,
        if_revision: int,
    ) -> Optional[Listing[Tool]]: ...

    async def list(
        self,
        *,
        server: Optional[str] = None,
        names: Optional[Iterable[str]] = None,
        search: Optional[str] = None,
        refresh: bool = False,
        if_revision: Optional[int] = None,
    ) -> Optional[Listing[Tool]]:
        """As :meth:`Runtime.list`."""
        return await self._run(_operations.tools(server, names, search, if_revision, refresh))

    async def tools(
        self,
        format: Format,
        *,
        server: Optional[str] = None,
        names: Optional[Iterable[str]] = None,
        search: Optional[str] = None,
    ) -> FormattedTools:
        """As :meth:`Runtime.tools`."""
        return await self._run(_operations.formatted_tools(format, server, names, search))

    async def servers(self) -> Listing[ServerView]:
        """As :meth:`Runtime.servers`."""
        return await self._run(_operations.servers())

    async def resources(self, server: Optional[str] = None, *, timeout: Optional[float] = None) -> Listing[Json]:
        """As :meth:`Runtime.resources`."""
        return await self._run(_operations.items("resources", server, timeout))

    async def resource_templates(
        self, server: Optional[str] = None, *, timeout: Optional[float] = None
    ) -> Listing[Json]:
        """As :meth:`Runtime.resource_templates`."""
        return await self._run(_operations.items("resourceTemplates", server, timeout))

    async def prompts(self, server: Optional[str] = None, *, timeout: Optional[float] = None) -> Listing[Json]:
        """As :meth:`Runtime.prompts`."""
        return await self._run(_operations.items("prompts", server, timeout))

    async def call(
        self,
        name: str,
        arguments: Union[Mapping[str, Any], str, None] = None,
        *,
        server: Optional[str] = None,
        timeout: Optional[float] = None,
        progress: Union[bool, OnProgress] = False,
        meta: Optional[Mapping[str, Any]] = None,
        retry: Optional[Literal["safe", "always", "never"]] = None,
        format: Optional[Format] = None,
        call_id: Optional[str] = None,
    ) -> CallResult:
        """As :meth:`Runtime.call`."""
        return await self._run(
            _operations.call(name, arguments, server, timeout, progress, meta, retry, format, call_id)
        )

    async def request(
        self,
        server: Optional[str],
        method: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        progress: Union[bool, OnProgress] = False,
        meta: Optional[Mapping[str, Any]] = None,
    ) -> CallResult:
        """As :meth:`Runtime.request`."""
        return await self._run(_operations.request(server, method, params, timeout, progress, meta))

    async def login(self, server: str, *, timeout: Optional[float] = None) -> Json:
        """As :meth:`Runtime.login`."""
        return await self._run(_operations.sign("login", server, timeout))

    async def logout(self, server: str, *, timeout: Optional[float] = None) -> Json:
        """As :meth:`Runtime.logout`."""
        return await self._run(_operations.sign("logout", server, timeout))

    async def stats(self) -> Stats:
        """As :meth:`Runtime.stats`."""
        return await self._run(_operations.stats())

    async def reload(
        self,
        mode: Literal["diff", "full"] = "diff",
        *,
        startup_timeout: Optional[float] = None,
        uncached: Optional[Literal["wait", "background"]] = None,
        gate: Optional[Literal["timer", "eager"]] = None,
        tools: bool = True,
    ) -> ReloadReport:
        """As :meth:`Runtime.reload`."""
        return await self._run(_operations.reload(mode, startup_timeout, uncached, gate, tools))

    async def disconnect(self, server: Optional[str] = None) -> List[str]:
        """As :meth:`Runtime.disconnect`."""
        return await self._run(_operations.disconnect(server))

    def events(self) -> AsyncEventStream:
        """Iterates over the events from now on, until the runtime is closed. Keeps at most 4096 unread ones."""
        self._check()
        stream = AsyncEventStream(self._pump.remove_stream)
        self._pump.add_stream(stream)
        if self._pump.ended.done():
            stream.end()
        return stream

    # ---- how a verb runs

    def _check(self) -> None:
        if self._generation != _library.generation:
            raise ForkError(FORKED)
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "this AsyncRuntime belongs to another event loop: make one in each loop, or use Runtime, which any "
                "thread may use"
            )

    async def _run(self, operation: Operation[T]) -> T:
        self._check()
        tag = next(self._tags)
        pump = self._pump
        future: asyncio.Future[Tuple[int, bytes]] = self._loop.create_future()
        pump.pending[tag] = future
        if operation.on_progress is not None:
            pump.progress[tag] = operation.on_progress
        try:
            status, reply = await self._submit(operation, tag), b""
            if status == Status.OK:
                status, reply = await future
        except BaseException:
            self._library.cancel(self._handle, tag, 0)
            raise
        finally:
            del pump.pending[tag]
            pump.progress.pop(tag, None)
        return operation.finish(status, reply)

    async def _submit(self, operation: Operation[Any], tag: int) -> int:
        room = self._pump.room
        status = Status.EBUSY
        if not room or operation.verb in _NEVER_BUSY:
            status = self._library.submit(self._handle, operation.verb, 0, tag, operation.encode())
            if status != Status.EBUSY:
                return status
        started = time.monotonic()
        patience = self._room_timeout if operation.timeout is None else operation.timeout
        again = False
        while await room.wait(started + patience - time.monotonic(), first=again):
            status = self._library.submit(
                self._handle, operation.verb, 0, tag, operation.encode_after(started)
            )
            if status != Status.EBUSY:
                room.wake()
                return status
            again = True
        return Status.EBUSY


_NEVER_BUSY = (_library.DISCONNECT, _library.CLOSE)


def _say_the_same() -> None:
    """``help()`` shows what a verb does, not where that is written."""
    for name, method in vars(AsyncRuntime).items():
        if (method.__doc__ or "").startswith(f"As :meth:`Runtime.{name}`.") and name != "close":
            method.__doc__ = vars(Runtime)[name].__doc__


_say_the_same()

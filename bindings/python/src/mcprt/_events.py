"""What the library tells without being asked: events, and the requests that a host answers."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Dict, Mapping, Optional, Union

from . import _json

# A stream that nobody reads keeps no more than this; the library's own bounds are the same.
_MAX_EVENTS = 4096
_MAX_BYTES = 16 * 1024 * 1024


class Event:
    """A notice: ``type`` says which, such as "tools_changed", "server_state", "progress", "log" or "dropped".

    "dropped" (``data["count"]``) means that this many notices are missing here: state is to be had from ``list`` and
    ``servers``. Ignore a "tools_changed" whose revision is not above that of the list you hold. ``raw`` is its JSON as the
    library gave it, ``notices`` how many notices it stands for.
    """

    __slots__ = ("raw", "_data", "notices")

    def __init__(self, raw: bytes, notices: int = 1) -> None:
        self.raw = raw
        self._data: Optional[Dict[str, Any]] = None
        self.notices = notices

    @classmethod
    def dropped(cls, count: int) -> Event:
        """The event that stands where ``count`` notices are missing."""
        return cls(b'{"type":"dropped","count":%d}' % count, count)

    @property
    def data(self) -> Dict[str, Any]:
        """All members, ``type`` included, under the C API's names; do not change it.

        Raises :class:`ProtocolError` where a server's own part of it is nothing that Python can hold.
        """
        if self._data is None:
            self._data = dict(_json.decode(self.raw))
        return self._data

    @property
    def type(self) -> str:
        """Which notice it is, such as "tools_changed"; docs/options.md lists them with their members."""
        return str(self.data.get("type", ""))

    def __repr__(self) -> str:
        return f"<Event {self.raw[:200].decode('utf-8', 'replace')}>"


class Request(Event):
    """Something a server (or the library) asks the host: given to the handler of its ``kind``.

    The handler returns the result as a mapping, or None to decline; :class:`ReplyError` sends that error, any other
    exception a general one. What it returns after the request has ended is dropped.
    """

    __slots__ = ("_ended",)

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self._ended = threading.Event()

    @property
    def kind(self) -> str:
        """The key in ``on_request``: "elicitation", "sampling", "roots", "authorization" or "input"."""
        return self.type.partition("/")[0]

    @property
    def server(self) -> str:
        """The server that asks; empty where the library itself does."""
        return str(self.data.get("server", ""))

    @property
    def params(self) -> Dict[str, Any]:
        """What it asks, as MCP defines it for the ``kind``; do not change it."""
        return self.data.get("params") or {}

    @property
    def timeout(self) -> Optional[float]:
        """Seconds after which the library gives up."""
        timeout = self.data.get("timeoutMs")
        return None if timeout is None else timeout / 1000

    @property
    def attempt(self) -> int:
        """From 1: how often this was asked."""
        return int(self.data.get("attempt") or 1)

    @property
    def ended(self) -> bool:
        """Nobody waits for the answer any more: answered elsewhere, withdrawn, or out of time."""
        return self._ended.is_set()

    def wait_ended(self, timeout: Optional[float] = None) -> bool:
        """Blocks for at most ``timeout`` seconds until the request has ended; for handlers that run in a thread."""
        return self._ended.wait(timeout)

    def end(self) -> None:
        """Called by the runtime."""
        self._ended.set()


Answer = Optional[Mapping[str, Any]]
OnEvent = Callable[[Event], object]
Handler = Callable[[Request], Answer]
AsyncHandler = Callable[[Request], Union[Answer, Awaitable[Answer]]]


class _Bounded:
    """Events that wait for a reader. Beyond the bounds the newest are dropped and counted, as the library does."""

    def __init__(self) -> None:
        self._events: Deque[Event] = deque()
        self._bytes = 0
        self._lost = 0

    def push(self, event: Event) -> None:
        full = len(self._events) >= _MAX_EVENTS or self._bytes + len(event.raw) > _MAX_BYTES
        if self._lost or full:
            self._lost += event.notices
        else:
            self._events.append(event)
            self._bytes += len(event.raw)

    def pop(self) -> Optional[Event]:
        if self._events:
            event = self._events.popleft()
            self._bytes -= len(event.raw)
            return event
        if self._lost:
            lost, self._lost = self._lost, 0
            return Event.dropped(lost)
        return None


class EventStream:
    """Iterates over the events that follow its making, until it or the runtime is closed.

    Any number of threads may share one; each event goes to one of them.
    """

    def __init__(self, timeout: Optional[float], on_close: Callable[[EventStream], None]) -> None:
        self._waiting = _Bounded()
        self._changed = threading.Condition()
        self._timeout = timeout
        self._over = False
        self._on_close = on_close

    def push(self, event: Event) -> None:
        """Called by the runtime."""
        with self._changed:
            self._waiting.push(event)
            self._changed.notify()

    def end(self) -> None:
        """Called by the runtime: no event follows."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def close(self) -> None:
        """Ends it at once: what was not read is thrown away."""
        self._on_close(self)
        with self._changed:
            self._waiting = _Bounded()
        self.end()

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        event: Optional[Event] = None

        def ready() -> bool:
            nonlocal event
            event = self._waiting.pop()
            return event is not None or self._over

        with self._changed:
            self._changed.wait_for(ready, self._timeout)
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEventStream:
    """As :class:`EventStream`, for the tasks of one event loop. It has no timeout: use ``asyncio.wait_for``."""

    def __init__(self, on_close: Callable[[AsyncEventStream], None]) -> None:
        self._waiting = _Bounded()
        self._changed = asyncio.Event()
        self._over = False
        self._on_close = on_close

    def push(self, event: Event) -> None:
        """Called by the runtime."""
        self._waiting.push(event)
        self._changed.set()

    def end(self) -> None:
        """Called by the runtime: no event follows."""
        self._over = True
        self._changed.set()

    async def aclose(self) -> None:
        """Ends it at once: what was not read is thrown away."""
        self._on_close(self)
        self._waiting = _Bounded()
        self.end()

    def __aiter__(self) -> AsyncEventStream:
        return self

    async def __anext__(self) -> Event:
        while True:
            event = self._waiting.pop()
            if event is not None:
                return event
            if self._over:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    async def __aenter__(self) -> AsyncEventStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

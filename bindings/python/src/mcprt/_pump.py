"""The thread that brings events to a blocking runtime. It exists only where somebody asked for events."""

from __future__ import annotations

import threading
from typing import Any, Dict, Mapping, Optional, Tuple, cast

from ._dispatch import Dispatcher
from ._errors import CLOSED, ClosedError, Status
from ._events import EventStream, Handler, OnEvent, Request
from ._library import Library
from ._operations import Operation

# A callback that blocks must not keep close() from returning.
_LAST_CALLBACK = 1.0


class _Outcome:
    """Where one thread waits for its operation. What comes first counts."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._status = 0
        self._reply = b""
        self._error: Optional[Exception] = None

    def put(self, status: int, reply: bytes) -> None:
        if not self._ready.is_set():
            self._status, self._reply = status, reply
            self._ready.set()

    def put_error(self, error: Exception) -> None:
        if not self._ready.is_set():
            self._error = error
            self._ready.set()

    def get(self) -> Tuple[int, bytes]:
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self._status, self._reply


class Pump(Dispatcher[EventStream]):
    """Callbacks of the host run in the pump's thread, request handlers in a thread of their own."""

    def __init__(
        self, library: Library, handle: int, on_event: Optional[OnEvent], handlers: Mapping[str, Handler]
    ) -> None:
        super().__init__(library, handle, on_event, handlers)
        self._outcomes: Dict[int, _Outcome] = {}
        self._lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None
        self._ended = False

    def start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mcprt-events", daemon=True)
                self._thread.start()

    def join(self) -> None:
        """After the manager was closed: waits for the last event to be delivered."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_LAST_CALLBACK)

    def open_stream(self, timeout: Optional[float]) -> EventStream:
        stream = EventStream(timeout, self._remove)
        with self._lock:
            self.add_stream(stream)
            if self._ended:
                stream.end()
        self.start()
        return stream

    def _remove(self, stream: EventStream) -> None:
        with self._lock:
            self.remove_stream(stream)

    def run(self, tag: int, operation: Operation[Any]) -> Tuple[int, bytes]:
        """Runs an operation whose completion comes through the queue, and so after all of its progress."""
        outcome = _Outcome()
        self._outcomes[tag] = outcome
        if operation.on_progress is not None:
            self.progress[tag] = operation.on_progress
        self.start()
        try:
            status = self.library.submit(self.handle, operation.verb, 0, tag, operation.encode())
            if status != Status.OK:
                return status, b""
            if self._ended:
                raise ClosedError(CLOSED)
            return outcome.get()
        except BaseException:
            self.library.cancel(self.handle, tag, 0)
            raise
        finally:
            self._outcomes.pop(tag, None)
            self.progress.pop(tag, None)

    def complete(self, tag: int, status: int, reply: bytes) -> None:
        outcome = self._outcomes.get(tag)
        if outcome is not None:
            outcome.put(status, reply)

    def fail(self, tag: int, error: Exception) -> None:
        outcome = self._outcomes.get(tag)
        if outcome is not None:
            outcome.put_error(error)

    def start_handler(self, tag: int, request: Request, handler: Any) -> None:
        thread = threading.Thread(
            target=self._handle, args=(tag, request, cast(Handler, handler)), name="mcprt-handler", daemon=True
        )
        thread.start()

    def _handle(self, tag: int, request: Request, handler: Handler) -> None:
        try:
            answer = handler(request)
        except BaseException as error:
            self.answer_error(tag, error)
        else:
            self.answer(tag, answer)

    def _run(self) -> None:
        try:
            while not self.reader.ended:
                if self.library.wait(self.handle, -1) < 0:
                    return
                while frames := self.reader.read():
                    self.dispatch(frames)
        finally:
            with self._lock:
                self._ended = True
                self.end_streams()
            for outcome in list(self._outcomes.values()):
                outcome.put(Status.ECLOSED, b"")
            for request in list(self._requests.values()):
                request.end()

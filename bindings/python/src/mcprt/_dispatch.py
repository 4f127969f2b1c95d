"""Brings the frames of one manager to those who wait for them."""

from __future__ import annotations

import logging
from typing import Any, Dict, Generic, List, Mapping, Optional, Tuple, TypeVar, Union

from . import _json, _library
from ._errors import InvalidRequestError, MCPError, ReplyError, Status
from ._events import Answer, AsyncEventStream, AsyncHandler, Event, EventStream, OnEvent, Request
from ._frames import Frame
from ._library import Library
from ._operations import OnProgress
from ._types import Progress

# Exceptions of the host's own callbacks end here; the library itself reports by events and errors.
log = logging.getLogger("mcprt")

# A server may ask as often as it likes; each open request costs a thread or a task.
_MAX_REQUESTS = 64

Stream = TypeVar("Stream", EventStream, AsyncEventStream)


class Dispatcher(Generic[Stream]):
    """Common to both runtimes. Frames are dispatched by one thread at a time; a subclass says which, and how a
    completion and a handler's start reach the host.
    """

    def __init__(
        self, library: Library, handle: int, on_event: Optional[OnEvent], handlers: Mapping[str, AsyncHandler]
    ) -> None:
        self.library = library
        self.handle = handle
        self.reader = library.reader(handle)
        #: Who wants the progress of an operation, by its tag.
        self.progress: Dict[int, OnProgress] = {}
        self._on_event = on_event
        self._handlers = dict(handlers)
        self._requests: Dict[int, Request] = {}
        # Replaced as a whole, never changed: other threads add and remove streams.
        self._streams: Tuple[Stream, ...] = ()

    def complete(self, tag: int, status: int, reply: bytes) -> None:
        """An operation ended. Its tag may be unknown: the caller left."""
        raise NotImplementedError

    def fail(self, tag: int, error: Exception) -> None:
        """The progress callback of an operation raised ``error``."""
        raise NotImplementedError

    def start_handler(self, tag: int, request: Request, handler: AsyncHandler) -> None:
        raise NotImplementedError

    def handler_over(self, tag: int) -> None:
        """The request has ended; its handler may still run."""

    def dispatch(self, frames: List[Frame]) -> None:
        for frame in frames:
            try:
                self._dispatch(frame)
            except Exception:
                log.exception("an event of the mcprt library could not be delivered")

    def _dispatch(self, frame: Frame) -> None:
        kind = frame.kind
        if kind == _library.EV_DONE:
            if frame.tag > _library.TAG_MAX:
                self._request_over(frame.tag, frame.status)
            else:
                self.complete(frame.tag, frame.status, frame.data)
        elif kind == _library.EV_NOTICE:
            self._notice(Event(frame.data))
        elif kind == _library.EV_REQUEST:
            self._request(frame.tag, Request(frame.data))
        elif kind == _library.EV_DROPPED:
            self._emit(Event.dropped(frame.status))
        # EV_CLOSED is seen by the reader; kinds of a later library are skipped.

    def _notice(self, event: Event) -> None:
        if self.progress and b'"progress"' in event.raw:
            tag, progress = _progress(event)
            callback = self.progress.get(tag)
            if callback is not None:
                try:
                    callback(progress)
                except Exception as error:
                    self.progress.pop(tag, None)
                    self.fail(tag, error)
        self._emit(event)

    def _emit(self, event: Event) -> None:
        for stream in self._streams:
            stream.push(event)
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                log.exception("on_event raised an exception")

    def add_stream(self, stream: Stream) -> None:
        self._streams += (stream,)

    def remove_stream(self, stream: Stream) -> None:
        self._streams = tuple(other for other in self._streams if other is not stream)

    def end_streams(self) -> None:
        for stream in self._streams:
            stream.end()

    # ---- requests

    def _request(self, tag: int, request: Request) -> None:
        try:
            handler = self._handlers.get(request.kind)
        except MCPError:
            handler = None
        if handler is None:
            self.library.cancel(self.handle, tag, 0)
        elif len(self._requests) >= _MAX_REQUESTS:
            self._reply(tag, _error(-32603, "the host is busy with other requests"))
        else:
            self._requests[tag] = request
            self.start_handler(tag, request, handler)

    def _request_over(self, tag: int, status: int) -> None:
        request = self._requests.pop(tag, None)
        if request is None:
            return
        if status == Status.EINVAL:
            log.error("the answer of the %s handler had the wrong shape and was not sent", request.kind)
        request.end()
        self.handler_over(tag)

    def answer(self, tag: int, answer: Answer) -> None:
        """Sends what a handler returned. An answer that comes too late is dropped by the library."""
        if answer is None:
            self.library.cancel(self.handle, tag, 0)
            return
        try:
            reply = _json.encode({"result": answer})
        except InvalidRequestError as error:
            self.answer_error(tag, error)
            return
        self._reply(tag, reply)

    def answer_error(self, tag: int, error: BaseException) -> None:
        """Sends an error. The text of an exception is the host's own business and stays here."""
        if isinstance(error, ReplyError):
            self._reply(tag, _error(error.code, error.message))
            return
        request = self._requests.get(tag)
        log.error("the %s handler failed", request.kind if request else "request", exc_info=error)
        self._reply(tag, _error(-32603, f"the host's handler failed with {type(error).__name__}"))

    def _reply(self, tag: int, reply: bytes) -> None:
        self.library.submit(self.handle, _library.REPLY, 0, tag, reply)


def _progress(event: Event) -> Tuple[int, Progress]:
    """Tag 0 where this is no progress, or none that Python can hold."""
    try:
        data: Dict[str, Any] = event.data
    except MCPError:
        data = {}
    tag: Union[int, Any] = data.get("tag")
    if data.get("type") != "progress" or not isinstance(tag, int):
        return 0, Progress(0, None, None)
    return tag, Progress(data.get("progress", 0), data.get("total"), data.get("message"))


def _error(code: int, message: str) -> bytes:
    return _json.encode({"error": {"code": code, "message": message}})

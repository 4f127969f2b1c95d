"""``mcprt serve`` in the place of the shared library: the same functions, over a pair of pipes (docs/serve.md).

One process serves all runtimes of this one, as one library does. Two threads move the bytes: one writes, so that neither
an event loop nor a signal in the main thread ever stands in the middle of a frame; one reads, and hands out.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import queue
import struct
import subprocess
import tempfile
import threading
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

from . import _library
from ._errors import LibraryError, Status
from ._frames import Frame

_HEADER = struct.Struct("<QQiHHII")
_OPEN, _CANCEL, _FREE, _CREDIT = range(16, 20)
_HELLO, _OPENED, _ENDED = range(16, 19)
_BLOCKING = 4
_CHUNK = 64 * 1024
# A tool that is what it says answers in milliseconds; this is for a machine that is very busy.
_HELLO_TIMEOUT = 30.0
# At the end of this process: how long its servers' end is waited for. They end in any case.
_LAST_WAIT = 1.0


class _Held:
    """Where a thread waits for its operation."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.status = 0
        self.data = b""
        self.forgotten = False  # nobody wants it; its tag is in use until the operation has ended

    def put(self, status: int, data: bytes) -> None:
        if not self.ready.is_set():
            self.status, self.data = status, data
            self.ready.set()


class _Manager:
    """What is known here of one manager. Its fields are guarded by the library's lock."""

    def __init__(self, number: int, lock: threading.RLock) -> None:
        self.number = number
        self.opened = _Held()
        self.ended = threading.Event()
        self.closing = False
        self.freed = False
        self.over = False  # EV_CLOSED was taken
        self.max_in_flight = 0
        self.queue_bytes = 0
        #: Submitted, and neither taken nor drained: what waits for it, or None where it goes through the queue.
        self.tags: Dict[int, Optional[_Held]] = {}
        #: Of the blocking verbs, which maxInFlight does not count.
        self.blocking: Dict[int, _Held] = {}
        self.requests: Set[int] = set()
        self.changed = threading.Condition(lock)
        self.queue: Deque[Frame] = deque()
        self.waiting = 0  # bytes of the queue, without its notices, and of what is held
        self.taken = 0  # bytes that were taken from the queue, and not yet said so
        self.wake: Optional[Tuple[int, int]] = None
        self.woken = False

    def add(self, frame: Frame) -> None:
        self.queue.append(frame)
        if frame.kind != _library.EV_NOTICE:
            self.waiting += _size(len(frame.data))
        self.changed.notify_all()
        self.wake_up()

    def wake_up(self) -> None:
        if self.wake is not None and not self.woken:
            self.woken = True
            try:
                os.write(self.wake[1], b"\0")
            except BlockingIOError:
                pass  # so full that it is readable


def _size(length: int) -> int:
    """Of an mcprt_frame with its data and padding."""
    return (24 + length + 8) & ~7


class ServeLibrary:
    """A running ``mcprt serve``. See :class:`_library.Library` for what its methods do."""

    def __init__(self, tool: str) -> None:
        self.path = tool
        self._pid = os.getpid()
        # Re-entrant: a finaliser may free a manager in the middle of anything, also of what holds this lock.
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._own_tags = itertools.count(_library.TAG_MAX, -1)
        self._managers: Dict[int, _Manager] = {}
        self._frames: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._unsent = 0
        self._dead: Optional[bytes] = None  # the JSON of why
        self._reason = ""  # of the end, for a sentence
        self._silent = False  # it was ended because it did not begin
        self._hello = _Held()
        self._said = tempfile.TemporaryFile()  # what a crash says; nothing else is written there
        try:
            self._process = subprocess.Popen(
                [tool, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, bufsize=0
            )
        except OSError as err:
            self._said.close()
            raise LibraryError(f"{tool}, which takes the place of the mcprt library here, cannot be run: {err}") from err
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        for run, name in ((self._write, "mcprt-write"), (self._read, "mcprt-read")):
            threading.Thread(target=run, name=name, daemon=True).start()
        atexit.register(self.shutdown)
        if not self._hello.ready.wait(_HELLO_TIMEOUT):
            self._silent = True
            self._process.kill()
            self._hello.ready.wait(_HELLO_TIMEOUT)
        if self._hello.status != Status.OK:
            self.shutdown()
            raise LibraryError(f'"{tool} serve", which takes the place of the mcprt library here, did not start: {self._reason}')
        hello = json.loads(self._hello.data)
        self.version: str = hello["version"]
        self._window: int = hello["window"]
        if hello["abi"] != _library.ABI or hello["minor"] < _library.MINOR:
            self.shutdown()
            raise LibraryError(
                f"{tool} has version {self.version}, but this package needs ABI {_library.ABI} and at least version "
                f"0.{_library.MINOR}; install a package and a tool of the same release."
            )

    @property
    def alive(self) -> bool:
        return self._dead is None

    def shutdown(self) -> None:
        """Ends the process, and with it every server. A second time it does nothing."""
        if os.getpid() != self._pid:
            return
        atexit.unregister(self.shutdown)
        self._frames.put(None)
        try:
            self._process.wait(_LAST_WAIT)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # it ends its servers and itself; nobody need say that it is still running

    def left_by_fork(self) -> None:
        # While a child has these open, the tool would not see that its parent has gone.
        for file in (self._stdin, self._stdout, self._said):
            file.close()
        for manager in list(self._managers.values()):
            if manager.wake is not None:
                for fd in manager.wake:
                    os.close(fd)
                manager.wake = None
        self._process.returncode = 0

    # ---- the functions of mcprt.h

    def open(self, options: bytes) -> Tuple[int, int, bytes]:
        manager = _Manager(next(self._numbers), self._lock)
        with self._lock:
            if self._dead is not None:
                return Status.EINTERNAL, 0, self._dead
            self._managers[manager.number] = manager
            self._send(manager.number, _OPEN, 0, 0, _with_cwd(options))
        manager.opened.ready.wait()
        status, data = manager.opened.status, manager.opened.data
        if status != Status.OK:
            self._managers.pop(manager.number, None)
            return status, 0, data
        limits = json.loads(data)
        manager.max_in_flight, manager.queue_bytes = limits["maxInFlight"], limits["queueBytes"]
        return status, manager.number, b""

    def verb(self, handle: int, verb: int, request: bytes) -> Tuple[int, bytes]:
        manager = self._managers.get(handle)
        if manager is None:
            return Status.EHANDLE, b""
        held = _Held()
        tag = next(self._own_tags)
        with self._lock:
            if manager.closing:
                return Status.ECLOSED, b""
            manager.blocking[tag] = held
            self._send(handle, verb, _BLOCKING, tag, request)
        try:
            held.ready.wait()
        finally:
            manager.blocking.pop(tag, None)
        return held.status, held.data

    def submit(self, handle: int, verb: int, flags: int, tag: int, request: bytes) -> int:
        manager = self._managers.get(handle)
        if manager is None:
            return Status.EHANDLE
        if len(request) > 1 << 30:
            return Status.EINVAL
        if verb == _library.REPLY:
            self._send(handle, verb, 0, tag, request)
            return Status.OK
        with self._lock:
            if manager.closing:
                return Status.ECLOSED
            if tag in manager.tags:
                return Status.ETAG
            full = (
                len(manager.tags) >= manager.max_in_flight
                or manager.waiting > manager.queue_bytes
                or self._unsent > manager.queue_bytes
            )
            if full and verb not in (_library.DISCONNECT, _library.CLOSE):
                return Status.EBUSY
            manager.tags[tag] = _Held() if flags & _library.F_HOLD else None
            manager.closing = verb == _library.CLOSE
            self._send(handle, verb, flags, tag, request)
        return Status.OK

    def take_held(self, handle: int, tag: int, timeout_ms: int) -> Tuple[int, bytes]:
        manager = self._managers.get(handle)
        if manager is None:
            return Status.EHANDLE, b""
        held = manager.tags.get(tag)
        if held is None or held.forgotten:
            return Status.ETAG, b""
        if not held.ready.wait(None if timeout_ms < 0 else timeout_ms / 1000):
            return Status.EAGAIN, b""
        with self._lock:
            if not held.forgotten and manager.tags.get(tag) is held:
                del manager.tags[tag]
                manager.waiting -= _size(len(held.data))
        return held.status, held.data

    def cancel(self, handle: int, tag: int, flags: int) -> int:
        manager = self._managers.get(handle)
        if manager is None:
            return Status.EHANDLE
        with self._lock:
            held = manager.tags.get(tag)
            if flags & _library.F_FORGET and held is not None and not held.forgotten:
                if held.ready.is_set():
                    del manager.tags[tag]
                    manager.waiting -= _size(len(held.data))
                    return Status.OK
                held.forgotten = True
                held.put(Status.ETAG, b"")  # for threads that wait
            self._send(handle, _CANCEL, flags, tag)
        return Status.OK

    def reader(self, handle: int) -> _library.Reader:
        return _ServeReader(self, self._managers.get(handle))

    def wait(self, handle: int, timeout_ms: int) -> int:
        manager = self._managers.get(handle)
        if manager is None:
            return Status.EHANDLE
        with manager.changed:
            manager.changed.wait_for(
                lambda: manager.queue or manager.over or manager.freed, None if timeout_ms < 0 else timeout_ms / 1000
            )
            if manager.freed:
                return Status.EHANDLE
            return 1 if manager.queue else Status.ECLOSED if manager.over else 0

    def notify_fd(self, handle: int) -> int:
        manager = self._managers.get(handle)
        if manager is None:
            return Status.EHANDLE
        if os.name == "nt":
            return Status.EINVAL
        with self._lock:
            if manager.wake is None:
                manager.wake = os.pipe()
                for fd in manager.wake:
                    os.set_blocking(fd, False)
            if manager.queue:
                manager.wake_up()
            return os.dup(manager.wake[0])

    def close(self, handle: int, grace_ms: int) -> int:
        manager = self._managers.get(handle)
        if manager is None:
            return Status.EHANDLE
        with self._lock:
            if not manager.closing:
                manager.closing = True
                request = b"{}" if grace_ms < 0 else b'{"graceMs":%d}' % grace_ms
                self._send(handle, _library.CLOSE, _BLOCKING, next(self._own_tags), request)
        manager.ended.wait()
        return Status.OK

    def free(self, handle: int) -> None:
        with self._lock:
            manager = self._managers.pop(handle, None)
            if manager is None or os.getpid() != self._pid:
                return
            manager.closing = manager.freed = True
            manager.queue.clear()
            for held in [*manager.tags.values(), *manager.blocking.values()]:
                if held is not None:
                    held.put(Status.EHANDLE, b"")
            manager.changed.notify_all()
            if manager.wake is not None:
                for fd in manager.wake:
                    os.close(fd)
                manager.wake = None
            manager.ended.set()
            self._send(handle, _FREE, 0, 0)

    def take(self, manager: _Manager) -> List[Frame]:
        """Empties the queue of a manager, and tells the tool of the room that this made."""
        with self._lock:
            frames = list(manager.queue)
            manager.queue.clear()
            manager.woken = False
            for frame in frames:
                size = _size(len(frame.data))
                manager.taken += size
                if frame.kind != _library.EV_NOTICE:
                    manager.waiting -= size
                if frame.kind == _library.EV_DONE:
                    manager.tags.pop(frame.tag, None)
                elif frame.kind == _library.EV_CLOSED:
                    manager.over = True
            if manager.taken >= self._window // 2 and not manager.freed:
                self._send(manager.number, _CREDIT, 0, manager.taken)
                manager.taken = 0
            return frames

    # ---- bytes

    def _send(self, manager: int, kind: int, status: int, tag: int, data: bytes = b"") -> None:
        size = _size(len(data))
        frame = _HEADER.pack(manager, tag, status, kind, 0, len(data), size) + data + bytes(size - 24 - len(data))
        with self._lock:
            self._unsent += len(frame)
        self._frames.put(frame)

    def _write(self) -> None:
        try:
            while True:
                frame = self._frames.get()
                if frame is None:
                    break
                view = memoryview(frame)
                while view:
                    view = view[os.write(self._stdin.fileno(), view) :]
                with self._lock:
                    self._unsent -= len(frame)
        except (OSError, ValueError):
            pass  # it has gone: the reader says so
        self._stdin.close()

    def _read(self) -> None:
        buffer = bytearray()
        try:
            while True:
                chunk = os.read(self._stdout.fileno(), _CHUNK)
                if not chunk:
                    break
                buffer += chunk
                self._cut(buffer)
        except (OSError, ValueError, struct.error):
            pass
        self._lost()

    def _cut(self, buffer: bytearray) -> None:
        """Takes whole frames from the front of the buffer."""
        at = 0
        while len(buffer) - at >= _HEADER.size:
            number, tag, status, kind, _, length, size = _HEADER.unpack_from(buffer, at)
            if size != _size(length):
                raise ValueError("no frame of mcprt serve")
            if len(buffer) - at < 8 + size:
                break
            with memoryview(buffer) as view:
                data = bytes(view[at + _HEADER.size : at + _HEADER.size + length])
            at += 8 + size
            self._receive(number, Frame(tag, status, kind, data))
        del buffer[:at]

    def _receive(self, number: int, frame: Frame) -> None:
        kind = frame.kind
        if kind == _HELLO and number == 0:
            self._hello.put(Status.OK, frame.data)
            return
        with self._lock:
            manager = self._managers.get(number)
            if manager is None:
                return  # freed
            if kind == _OPENED:
                manager.opened.put(frame.status, frame.data)
            elif kind == _ENDED:
                manager.ended.set()
            elif kind == _library.EV_DONE and frame.tag in manager.blocking:
                manager.blocking[frame.tag].put(frame.status, frame.data)
            elif kind == _library.EV_DONE and (held := manager.tags.get(frame.tag)) is not None:
                if held.forgotten:
                    del manager.tags[frame.tag]
                else:
                    held.put(frame.status, frame.data)
                    manager.waiting += _size(len(frame.data))
            elif kind == _library.EV_DONE and frame.tag <= _library.TAG_MAX and frame.tag not in manager.tags:
                pass  # of a close that nobody waits for
            elif kind <= _library.EV_CLOSED:
                if kind == _library.EV_REQUEST:
                    manager.requests.add(frame.tag)
                elif kind == _library.EV_DONE:
                    manager.requests.discard(frame.tag)
                manager.add(frame)

    def _ended(self) -> str:
        """How the process ended."""
        try:
            code: Any = self._process.wait(_LAST_WAIT)
            how = f"it was ended by signal {-code}" if code < 0 else f"it ended with status {code}"
            if self._silent:
                how = f"it said nothing within {_HELLO_TIMEOUT:g} s"
        except subprocess.TimeoutExpired:
            self._process.kill()
            how = "what it wrote is not understood"
        self._said.seek(0)
        said = self._said.read(2000).decode("utf-8", "replace").strip().splitlines()
        self._said.close()
        return how + (f": {said[0]}" if said else "")

    def _lost(self) -> None:
        """The process has gone: whoever waits is told."""
        try:
            self._reason = self._ended()
        except (OSError, ValueError):
            self._reason = "how is not known"
        why = {"code": "internal", "message": f'"mcprt serve" has ended ({self._reason}); make a new runtime', "retryable": False}
        reply = json.dumps({"error": why}).encode()
        with self._lock:
            self._dead = reply
            for manager in list(self._managers.values()):
                manager.closing = True
                manager.opened.put(Status.EINTERNAL, reply)
                for held in list(manager.blocking.values()):
                    held.put(Status.EINTERNAL, reply)
                queued = {frame.tag for frame in manager.queue if frame.kind == _library.EV_DONE}
                for tag, held_or_none in list(manager.tags.items()):
                    if held_or_none is not None:
                        held_or_none.put(Status.EINTERNAL, reply)
                    elif tag not in queued:
                        manager.add(Frame(tag, Status.EINTERNAL, _library.EV_DONE, reply))
                for tag in manager.requests:
                    manager.add(Frame(tag, Status.ECLOSED, _library.EV_DONE, b""))
                manager.requests.clear()
                if not manager.over and not any(frame.kind == _library.EV_CLOSED for frame in manager.queue):
                    manager.add(Frame(0, 0, _library.EV_CLOSED, b""))
                manager.ended.set()
        self._hello.put(Status.EINTERNAL, reply)
        self._frames.put(None)
        self._stdout.close()


class _ServeReader:
    def __init__(self, library: ServeLibrary, manager: Optional[_Manager]) -> None:
        self._library = library
        self._manager = manager
        self.ended = manager is None

    def read(self) -> List[Frame]:
        if self._manager is None or self.ended:
            return []
        frames = self._library.take(self._manager)
        if self._manager.freed or (frames and frames[-1].kind == _library.EV_CLOSED):
            self.ended = True
        return frames


def _with_cwd(options: bytes) -> bytes:
    """The current folder of the tool stays what it was at its start, whereas this process may have changed its own."""
    try:
        put = json.loads(options or b"{}")
        put["cwd"] = os.path.abspath(put.get("cwd") or "")
        return json.dumps(put).encode()
    except (ValueError, TypeError, OSError):
        return options  # the tool says what is wrong with them

"""Reading what a manager has queued: completions, notices, requests."""

from __future__ import annotations

import ctypes
import struct
from typing import List, NamedTuple

from ._errors import Status
from ._library import EV_CLOSED, SharedLibrary

_HEADER = struct.Struct("=QiHHII")
_SIZE = 256 * 1024


class Frame(NamedTuple):
    """One item of the queue. ``status`` counts what was lost where ``kind`` is EV_DROPPED."""

    tag: int
    status: int
    kind: int
    data: bytes


class FrameReader:
    """Drains one manager into a buffer that is used again and again. One thread at a time may read."""

    def __init__(self, library: SharedLibrary, handle: int, size: int = _SIZE) -> None:
        self._library = library
        self._handle = handle
        self._normal = size
        self._used = ctypes.c_size_t()
        self._resize(size)
        #: Nothing more will come: EV_CLOSED was drained, or the handle is gone.
        self.ended = False

    def _resize(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))

    def read(self) -> List[Frame]:
        """The frames of one drain; empty when the queue is empty or has ended. Never blocks."""
        if self.ended:
            return []
        count = self._drain()
        if count == Status.ERANGE:
            self._resize(self._used.value)
            count = self._drain()
        if count < 0:
            self.ended = True
            return []
        frames = self._parse(self._used.value)
        if len(self._buffer) > self._normal:
            self._resize(self._normal)  # one huge result must not be paid for until the end
        if frames and frames[-1].kind == EV_CLOSED:
            self.ended = True
        return frames

    def _drain(self) -> int:
        count: int = self._library.drain(
            self._handle, self._address, len(self._buffer), ctypes.byref(self._used)
        )
        return count

    def _parse(self, used: int) -> List[Frame]:
        frames: List[Frame] = []
        at = 0
        while at < used:
            tag, status, kind, _, length, step = _HEADER.unpack_from(self._buffer, at)
            start = at + _HEADER.size
            frames.append(Frame(tag, status, kind, bytes(self._view[start : start + length])))
            at += step
        return frames

"""Reading the queue."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, List, Tuple

import pytest

from mcprt import _library
from mcprt._errors import Status
from mcprt._frames import Frame, FrameReader

Item = Tuple[int, int, int, bytes]


class FakeLibrary:
    """A queue of items, drained as the header says."""

    def __init__(self, items: List[Item], later: int = 0) -> None:
        self.items = items
        self.later = later
        self.drains: List[int] = []

    def drain(self, handle: int, address: int, cap: int, used: Any) -> int:
        assert handle == 5
        self.drains.append(cap)
        out = b""
        count = 0
        for tag, status, kind, data in self.items:
            size = (24 + len(data) + 8) & ~7
            if len(out) + size > cap:
                if count == 0:
                    used._obj.value = size
                    return Status.ERANGE
                break
            out += struct.pack("=QiHHII", tag, status, kind, 0, len(data), size) + data
            out += bytes(-len(out) % 8 or 8)
            count += 1
        del self.items[:count]
        ctypes.memmove(address, out, len(out))
        used._obj.value = len(out)
        return count or self.later


def reader(items: List[Item], size: int = 256, later: int = 0) -> Tuple[FrameReader, FakeLibrary]:
    library = FakeLibrary(items, later)
    return FrameReader(library, 5, size), library  # type: ignore[arg-type]


def test_frames_are_read_whole_and_in_order() -> None:
    items: List[Item] = [(n, -n, _library.EV_DONE, b"x" * n) for n in range(1, 20)]
    frames, _ = reader(list(items))
    got: List[Frame] = []
    batches = 0
    while batch := frames.read():
        got += batch
        batches += 1
    assert 2 < batches < 10
    assert [tuple(frame) for frame in got] == items
    assert not frames.ended


def test_the_buffer_grows_for_a_large_frame_and_shrinks_again() -> None:
    frames, library = reader([(1, 0, 1, b"a" * 5000), (2, 0, 1, b"b")])
    assert [frame.data for frame in frames.read()] == [b"a" * 5000]
    assert frames.read() == [Frame(2, 0, 1, b"b")]
    assert library.drains == [256, 5032, 256]


def test_kinds_and_statuses_of_a_later_library_are_handed_on() -> None:
    frames, _ = reader([(2**53 - 1, -2147483648, 65535, b"")])
    assert frames.read() == [Frame(2**53 - 1, -2147483648, 65535, b"")]


def test_the_closing_frame_ends_the_reader() -> None:
    frames, library = reader([(0, 0, _library.EV_CLOSED, b"")])
    assert [frame.kind for frame in frames.read()] == [_library.EV_CLOSED]
    assert frames.ended
    assert frames.read() == []
    assert len(library.drains) == 1


@pytest.mark.parametrize("status", [Status.ECLOSED, Status.EHANDLE, Status.EFORK])
def test_a_handle_that_is_gone_ends_the_reader(status: int) -> None:
    frames, _ = reader([], later=status)
    assert frames.read() == []
    assert frames.ended

"""The shared library: where it is, whether it fits, and its functions. Where it cannot be loaded, what takes its place.

Loading starts the Go runtime inside the library, which does not survive ``fork``. So it happens at the first runtime,
not at import: a server that imports its modules first and then forks its workers is fine.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
import sys
import threading
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Protocol, Tuple

from . import _tool
from ._errors import FORKED, ForkError, LibraryError, Status

if TYPE_CHECKING:
    from ._frames import Frame

ABI = 0
MINOR = 1
TAG_MAX = (1 << 52) - 1

DISCOVER, CONNECT, LIST, CALL, RELOAD, REPLY, DISCONNECT, CLOSE = range(1, 9)
F_HOLD = 1
F_FORGET = 2
EV_DONE, EV_NOTICE, EV_REQUEST, EV_DROPPED, EV_CLOSED = range(1, 6)

# Up to here a submit keeps the GIL: copying is then cheaper than giving it away and asking for it back.
_SMALL = 64 * 1024


class Buf(ctypes.Structure):
    """``mcprt_buf``. The pointer is no ``c_char_p``: ctypes would turn that into bytes and lose the address to free."""

    _fields_ = [("ptr", c_void_p), ("len", c_size_t)]


_Prototype = Tuple[Any, List[Any]]
_VERB: _Prototype = (c_int32, [c_uint64, c_char_p, c_size_t, POINTER(Buf)])

PROTOTYPES: Dict[str, _Prototype] = {
    "mcprt_version": (c_char_p, []),
    "mcprt_check": (c_int32, [c_int32, c_int32]),
    "mcprt_status_name": (c_char_p, [c_int32]),
    "mcprt_buf_free": (None, [POINTER(Buf)]),
    "mcprt_open": (c_int32, [c_char_p, c_size_t, POINTER(c_uint64), POINTER(Buf)]),
    "mcprt_close": (c_int32, [c_uint64, c_int32]),
    "mcprt_free": (None, [c_uint64]),
    "mcprt_discover": _VERB,
    "mcprt_connect": _VERB,
    "mcprt_list": _VERB,
    "mcprt_call": _VERB,
    "mcprt_reload": _VERB,
    "mcprt_disconnect": _VERB,
    "mcprt_submit": (c_int32, [c_uint64, c_int32, c_uint32, c_uint64, c_char_p, c_size_t]),
    "mcprt_take": (c_int32, [c_uint64, c_uint64, c_int32, POINTER(Buf)]),
    "mcprt_cancel": (c_int32, [c_uint64, c_uint64, c_uint32]),
    "mcprt_drain": (c_int32, [c_uint64, c_void_p, c_size_t, POINTER(c_size_t)]),
    "mcprt_wait": (c_int32, [c_uint64, c_int32]),
    "mcprt_notify_fd": (c_int32, [c_uint64]),
}

# Short functions of plain C that never block: called with the GIL held, which saves half of the cost of a call.
_BRIEF = {"mcprt_buf_free", "mcprt_free", "mcprt_cancel", "mcprt_drain"}


class Reader(Protocol):
    """Takes out what a manager has queued. One thread at a time may read."""

    #: Nothing more will come: EV_CLOSED was read, or the handle is gone.
    ended: bool

    def read(self) -> List[Frame]:
        """What waits; empty when nothing does or all has ended. Never blocks."""
        ...


class Library(Protocol):
    """What both runtimes are made of: the functions of mcprt.h, with the meaning that they have there. Use :func:`load`."""

    path: str
    version: str

    @property
    def alive(self) -> bool:
        """False: it has ended, and the next runtime needs another."""
        ...

    def open(self, options: bytes) -> Tuple[int, int, bytes]:
        """Status, handle, and the JSON of an error."""
        ...

    def verb(self, handle: int, verb: int, request: bytes) -> Tuple[int, bytes]:
        """Runs a verb to its end in this thread, without the GIL."""
        ...

    def submit(self, handle: int, verb: int, flags: int, tag: int, request: bytes) -> int: ...

    def take_held(self, handle: int, tag: int, timeout_ms: int) -> Tuple[int, bytes]: ...

    def cancel(self, handle: int, tag: int, flags: int) -> int: ...

    def reader(self, handle: int) -> Reader: ...

    def wait(self, handle: int, timeout_ms: int) -> int: ...

    def notify_fd(self, handle: int) -> int: ...

    def close(self, handle: int, grace_ms: int) -> int: ...

    def free(self, handle: int) -> None: ...

    def left_by_fork(self) -> None:
        """This process is a forked child: lets go of what is its parent's."""
        ...


class SharedLibrary:
    """The functions of one loaded file."""

    alive = True

    def __init__(self, path: str) -> None:
        self.path = path
        releasing = ctypes.CDLL(path)
        holding = ctypes.PyDLL(path)
        try:
            functions = {
                name: _bind(holding if name in _BRIEF else releasing, name, prototype)
                for name, prototype in PROTOTYPES.items()
            }
            self._submit_small = _bind(holding, "mcprt_submit", PROTOTYPES["mcprt_submit"])
        except AttributeError as err:
            raise LibraryError(f"{path} is not an mcprt library that fits this package: {err}") from None
        self._submit_large = functions["mcprt_submit"]
        self.buf_free = functions["mcprt_buf_free"]
        self._close = functions["mcprt_close"]
        self._free = functions["mcprt_free"]
        self._take = functions["mcprt_take"]
        self._cancel = functions["mcprt_cancel"]
        self.drain = functions["mcprt_drain"]
        self._wait = functions["mcprt_wait"]
        self._notify_fd = functions["mcprt_notify_fd"]
        self._open = functions["mcprt_open"]
        self._verbs = {
            DISCOVER: functions["mcprt_discover"],
            CONNECT: functions["mcprt_connect"],
            LIST: functions["mcprt_list"],
            CALL: functions["mcprt_call"],
            RELOAD: functions["mcprt_reload"],
            DISCONNECT: functions["mcprt_disconnect"],
        }
        self.version: str = functions["mcprt_version"]().decode()
        fits = functions["mcprt_check"](ABI, MINOR)
        if fits == Status.EFORK:  # loaded by others, before the fork
            raise ForkError(FORKED)
        if fits != Status.OK:
            raise LibraryError(
                f"{path} has version {self.version}, but this package needs ABI {ABI} and at least version 0.{MINOR}; "
                "install a package and a library of the same release."
            )

    def open(self, options: bytes) -> Tuple[int, int, bytes]:
        handle = c_uint64()
        status, reply = self._filled(self._open, options, len(options), ctypes.byref(handle))
        return status, handle.value, reply

    def verb(self, handle: int, verb: int, request: bytes) -> Tuple[int, bytes]:
        return self._filled(self._verbs[verb], handle, request, len(request))

    def take_held(self, handle: int, tag: int, timeout_ms: int) -> Tuple[int, bytes]:
        return self._filled(self._take, handle, tag, timeout_ms)

    def submit(self, handle: int, verb: int, flags: int, tag: int, request: bytes) -> int:
        size = len(request)
        function = self._submit_small if size <= _SMALL else self._submit_large
        status: int = function(handle, verb, flags, tag, request, size)
        return status

    def cancel(self, handle: int, tag: int, flags: int) -> int:
        status: int = self._cancel(handle, tag, flags)
        return status

    def reader(self, handle: int) -> Reader:
        from ._frames import FrameReader  # which needs this module's numbers

        return FrameReader(self, handle)

    def wait(self, handle: int, timeout_ms: int) -> int:
        result: int = self._wait(handle, timeout_ms)
        return result

    def notify_fd(self, handle: int) -> int:
        fd: int = self._notify_fd(handle)
        return fd

    def close(self, handle: int, grace_ms: int) -> int:
        status: int = self._close(handle, grace_ms)
        return status

    def free(self, handle: int) -> None:
        self._free(handle)

    def left_by_fork(self) -> None:
        """The library knows by itself."""

    def _filled(self, function: Any, *args: Any) -> Tuple[int, bytes]:
        buf = Buf()
        try:
            status: int = function(*args, ctypes.byref(buf))
            return status, ctypes.string_at(buf.ptr, buf.len) if buf.ptr else b""
        finally:
            self.buf_free(ctypes.byref(buf))


def _bind(dll: ctypes.CDLL, name: str, prototype: _Prototype) -> Any:
    # By item, not by attribute: each access then makes a function object of its own, whose types nobody else sets.
    function = dll[name]
    function.restype, function.argtypes = prototype
    return function


_lock = threading.Lock()
_loaded: Optional[Library] = None
#: How often this process is a fork of one that had imported this package. A runtime of another number is dead.
generation: int = 0
_loaded_in: int = 0


def _in_child() -> None:
    global generation, _lock
    generation += 1
    _lock = threading.Lock()  # the parent's may be held by a thread that does not exist here
    if _loaded is not None:
        _loaded.left_by_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def load(explicit: Optional[str] = None) -> Library:
    """The library, loaded at the first call. Raises :class:`LibraryError` with one sentence that says what to do.

    One library per process, since two would be two Go runtimes: an ``explicit`` path (absolute) must be the one in use.
    Where the tool takes the place of the library, no path of a library counts.
    """
    global _loaded, _loaded_in
    with _lock:
        if _loaded is None or (_loaded_in == generation and not _loaded.alive):
            _loaded = _served() if _serves() else _shared(explicit)
            _loaded_in = generation
        if _loaded_in != generation:
            raise ForkError(FORKED)
        if explicit is not None and isinstance(_loaded, SharedLibrary) and explicit != _loaded.path:
            raise LibraryError(
                f"this process uses the mcprt library {_loaded.path} already, and cannot use {explicit} besides; "
                "give each runtime the same path."
            )
        return _loaded


def _serves() -> bool:
    """Whether ``mcprt serve`` takes the place of the library."""
    chosen = os.environ.get("MCPRT_BACKEND", "")
    if chosen not in ("", "library", "serve"):
        raise LibraryError(f'MCPRT_BACKEND is {chosen!r}; it can be "library" or "serve", or be unset.')
    musl = sys.platform == "linux" and not _glibc()
    if musl and chosen == "library":
        raise LibraryError(
            f"{_MUSL}: unset MCPRT_BACKEND, so that the command line tool takes its place, or use an image with glibc."
        )
    return musl or chosen == "serve"


def _shared(explicit: Optional[str]) -> Library:
    path = find(explicit)
    if _cut_short(path):
        raise LibraryError(f"{path} is only the beginning of a library: copy or install it again.")
    try:
        return SharedLibrary(path)
    except OSError as err:
        raise LibraryError(_why(path, err)) from err


def _served() -> Library:
    from ._serve import ServeLibrary  # which needs this module's numbers

    return ServeLibrary(find_tool())


_MUSL = (
    f"this Python runs on musl (Alpine Linux and others, {sys.platform} {platform.machine()}), where a Go shared library "
    "cannot be loaded"
)


def find_tool() -> str:
    """The path of the command line tool: ``MCPRT_TOOL``, that of this installation, or one on PATH."""
    named = os.environ.get("MCPRT_TOOL")
    if named:
        if not os.path.isfile(named):
            raise LibraryError(f"MCPRT_TOOL names {named}, but there is no such file.")
        return os.path.abspath(named)
    tool = _tool.own() or _tool.on_path()
    if tool is None:
        places = ", ".join(str(place) for place in _tool.places())
        asked = 'MCPRT_BACKEND=serve asks for "mcprt serve"' if os.environ.get("MCPRT_BACKEND") else _MUSL
        raise LibraryError(
            f"{asked}, and the command line tool mcprt that would take its place was not found: not at {places}, and not "
            "on PATH. Install the tool (one static file, which runs on every libc), or name it in MCPRT_TOOL"
            + ("." if os.environ.get("MCPRT_BACKEND") else ", or use an image with glibc.")
        )
    return tool


def file_name() -> str:
    if sys.platform == "win32":
        return "mcprt.dll"
    return f"libmcprt.{ABI}.dylib" if sys.platform == "darwin" else f"libmcprt.so.{ABI}"


def find(explicit: Optional[str] = None) -> str:
    """The path of the library file: ``explicit``, ``MCPRT_LIBRARY``, beside this package, or the build of a checkout."""
    named = explicit or os.environ.get("MCPRT_LIBRARY")
    if named:
        if not os.path.isfile(named):
            who = "the keyword library" if explicit else "MCPRT_LIBRARY"
            raise LibraryError(f"{who} names {named}, but there is no such file.")
        return os.path.abspath(named)
    here = Path(__file__).resolve().parent
    beside = here / file_name()
    if beside.is_file():
        return str(beside)
    for root in here.parents:
        if (root / "include" / "mcprt.h").is_file():
            built = root / "build" / file_name()
            if built.is_file():
                return str(built)
            raise LibraryError(f"the mcprt library is not built: run 'make build' in {root}.")
    if not here.is_dir():
        raise LibraryError(
            f"mcprt was imported from an archive ({here}), out of which no library can be loaded: install the wheel, or unpack {file_name()} "
            "and set MCPRT_LIBRARY to its path."
        )
    raise LibraryError(
        f"this installation of mcprt has no library for {sys.platform} on {platform.machine()}: {file_name()} is not in {here}, "
        "and this is no checkout of mcprt. Install the wheel made for this system ('make wheel' in a checkout makes it), or set "
        "MCPRT_LIBRARY to the path of a library."
    )


def _glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (ValueError, OSError):
        return False


# e_machine of an ELF header.
_MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64"}


def _machine(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return None
    if head[:4] != b"\x7fELF" or len(head) < 20:
        return None
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return _MACHINES.get(number, f"machine {number}")


def _cut_short(path: str) -> bool:
    """Whether parts of an ELF file are missing, as after a copy to a full disk.

    The loader maps what is not there, and the process ends with SIGBUS.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
                return False
            table = int.from_bytes(head[32:40], "little")
            size, count = struct.unpack_from("<HH", head, 54)
            whole = os.stat(file.fileno()).st_size
            end: int = table + size * count
            if end > whole:
                return True
            file.seek(table)
            programs = file.read(size * count)
            for at in range(0, len(programs) - 55 if size >= 56 else 0, size):
                offset, length = struct.unpack_from("<8xQ16xQ", programs, at)
                end = max(end, offset + length)
            return end > whole
    except OSError:
        return False


def _why(path: str, err: OSError) -> str:
    theirs, ours = _machine(path), _machine("/proc/self/exe")
    if theirs and ours and theirs != ours:
        return f"{path} is made for {theirs}, but this Python runs on {ours}: install the library made for {ours}."
    newer = re.search(r"version `GLIBC_([\d.]+)' not found", str(err))
    if newer:
        return (
            f"{path} needs glibc {newer[1]}, and this system's is older: set MCPRT_BACKEND=serve, which runs the command line tool in its "
            "place, use a newer system, or run 'make build' on this one and set MCPRT_LIBRARY."
        )
    return f"the system cannot load the mcprt library: {err} (MCPRT_BACKEND=serve runs the command line tool in its place)"

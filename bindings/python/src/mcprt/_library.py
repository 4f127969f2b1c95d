"""The shared library: where it is, whether it fits, and its functions.

Loading starts the Go runtime inside the library, which does not survive ``fork``. So it happens at the first runtime,
not at import: a server that imports its modules first and then forks its workers is fine.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
import threading
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ._errors import FORKED, ForkError, LibraryError, Status

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


class Library:
    """The functions of one loaded file. Use :func:`load`."""

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
        self.close = functions["mcprt_close"]
        self.free = functions["mcprt_free"]
        self.take = functions["mcprt_take"]
        self.cancel = functions["mcprt_cancel"]
        self.drain = functions["mcprt_drain"]
        self.wait = functions["mcprt_wait"]
        self.notify_fd = functions["mcprt_notify_fd"]
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
        """Status, handle, and the JSON of an error."""
        handle = c_uint64()
        status, reply = self._filled(self._open, options, len(options), ctypes.byref(handle))
        return status, handle.value, reply

    def verb(self, handle: int, verb: int, request: bytes) -> Tuple[int, bytes]:
        """Runs a verb to its end in this thread, without the GIL."""
        return self._filled(self._verbs[verb], handle, request, len(request))

    def take_held(self, handle: int, tag: int, timeout_ms: int) -> Tuple[int, bytes]:
        return self._filled(self.take, handle, tag, timeout_ms)

    def submit(self, handle: int, verb: int, flags: int, tag: int, request: bytes) -> int:
        size = len(request)
        function = self._submit_small if size <= _SMALL else self._submit_large
        status: int = function(handle, verb, flags, tag, request, size)
        return status

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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def load(explicit: Optional[str] = None) -> Library:
    """The library, loaded at the first call. Raises :class:`LibraryError` with one sentence that says what to do.

    One library per process, since two would be two Go runtimes: an ``explicit`` path (absolute) must be the one in use.
    """
    global _loaded, _loaded_in
    with _lock:
        if _loaded is None:
            _check_platform()
            path = find(explicit)
            try:
                _loaded = Library(path)
            except OSError as err:
                raise LibraryError(_why(path, err)) from err
            _loaded_in = generation
        if _loaded_in != generation:
            raise ForkError(FORKED)
        if explicit is not None and explicit != _loaded.path:
            raise LibraryError(
                f"this process uses the mcprt library {_loaded.path} already, and cannot use {explicit} besides; "
                "give each runtime the same path."
            )
        return _loaded


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
    raise LibraryError(
        f"this installation of mcprt has no library for {sys.platform} on {platform.machine()}: {file_name()} is not in {here}, "
        "and this is no checkout of mcprt. Install the wheel made for this system ('make wheel' in a checkout makes it), or set "
        "MCPRT_LIBRARY to the path of a library."
    )


def _check_platform() -> None:
    if sys.platform == "linux" and not _glibc():
        raise LibraryError(
            "this Python runs on musl (Alpine Linux and others), where a Go shared library cannot be loaded: use an "
            "image with glibc, such as Debian's."
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


def _why(path: str, err: OSError) -> str:
    theirs, ours = _machine(path), _machine("/proc/self/exe")
    if theirs and ours and theirs != ours:
        return f"{path} is made for {theirs}, but this Python runs on {ours}: install the library made for {ours}."
    newer = re.search(r"version `GLIBC_([\d.]+)' not found", str(err))
    if newer:
        return (
            f"{path} needs glibc {newer[1]}, and this system's is older: use a newer system, or run 'make build' on this one "
            "and set MCPRT_LIBRARY."
        )
    return f"the system cannot load the mcprt library: {err}"

"""Every exception of this package.

::

    MCPError                     code, message, server, tool, stage, retryable, data, result, status
     +- one class per error code of the library, named after it (timeout -> TimeoutError)
     +- OutOfMemoryError         also a MemoryError
     +- LibraryError             the library could not be loaded; also an ImportError
         +- ForkError            this process was forked after the library was loaded

    ReplyError                   raised by a host's own request handler to choose the error that is sent
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Optional, Type

if TYPE_CHECKING:
    from ._types import CallResult


class MCPError(Exception):
    """A failure that the library reported.

    ``code`` is one of docs/errors.md, or one of a newer library; each has its own subclass. ``message`` says what happened,
    to which server, and what to do next. ``server`` and ``tool`` say what it is about, where it is about one. ``stage`` is
    "config", "spawn", "connect", "send", "receive", "decode", "protocol", "auth", or None. ``retryable``: the same request
    may succeed later without a change of config. ``status`` is the MCPRT_E... number of the C API. ``data`` has the details as fields, under
    the names of the C API: ``command``, ``exitCode``, ``signal``, ``stderr``, ``httpStatus``, ``body``,
    ``challenge``, ``retryAfterMs``, ``traceId``, ``rpcCode``, ``rpcMessage``, ``timeoutMs``. ``result`` is set where
    a call failed: a tool result that a model can be shown.
    """

    code: str = "internal"
    status: int = -20

    def __init__(
        self,
        message: str,
        *,
        server: Optional[str] = None,
        tool: Optional[str] = None,
        stage: Optional[str] = None,
        retryable: bool = False,
        data: Optional[Dict[str, Any]] = None,
        result: Optional[CallResult] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.server = server
        self.tool = tool
        self.stage = stage
        self.retryable = retryable
        self.data: Dict[str, Any] = data or {}
        self.result = result

    def __str__(self) -> str:
        return self.message


class InvalidRequestError(MCPError, TypeError, ValueError):
    """An argument or option is wrong, or a method may not be called this way.

    Also a TypeError and a ValueError: those are what a Python program catches for a wrong argument.
    """

    code = "invalid_request"


class UnknownServerError(MCPError):
    """No server has this name."""

    code = "unknown_server"


class UnknownToolError(MCPError):
    """No tool has this name."""

    code = "unknown_tool"


class ToolGoneError(MCPError):
    """The tool was known from the cache, but the live server has it no longer."""

    code = "tool_gone"


class FilteredError(MCPError):
    """The config's ``allowTools`` or ``denyTools`` excludes this tool."""

    code = "filtered"


class TimeoutError(MCPError, builtins.TimeoutError):
    """The operation ran out of time."""

    code = "timeout"


class CanceledError(MCPError):
    """The operation was cancelled, and not by its own asyncio task (that one sees ``asyncio.CancelledError``)."""

    code = "canceled"


class ClosedError(MCPError):
    """The runtime is closed, or was while the operation ran."""

    code = "closed"


class BusyError(MCPError):
    """Too many operations wait to be finished (``max_in_flight``, ``queue_bytes``)."""

    code = "busy"


class ConfigError(MCPError):
    """A server's config cannot be used."""

    code = "config"


class SpawnFailedError(MCPError):
    """The server's process could not be started."""

    code = "spawn_failed"


class ExitedError(MCPError):
    """The server's process ended; ``data`` has ``exitCode`` or ``signal`` and the end of its stderr."""

    code = "exited"


class ConnectFailedError(MCPError):
    """The server could not be reached, or refused the handshake."""

    code = "connect_failed"


class ProtocolError(MCPError):
    """The server sent something that MCP does not allow, or JSON that Python cannot hold."""

    code = "protocol"


class UnsupportedVersionError(MCPError):
    """The server and the library have no protocol version in common."""

    code = "unsupported_version"


class TooLargeError(MCPError):
    """A message is larger than the limit (``limits={"message_bytes": ...}``)."""

    code = "too_large"


class HTTPStatusError(MCPError):
    """An HTTP server answered with an error status; ``data`` has ``httpStatus`` and the first bytes of ``body``."""

    code = "http_status"


class RPCError(MCPError):
    """The server answered with a JSON-RPC error; ``data`` has ``rpcCode``, ``rpcMessage`` and maybe ``rpcData``."""

    code = "rpc_error"


class NeedsAuthError(MCPError):
    """The server wants the user to sign in."""

    code = "needs_auth"


class NeedsTrustError(MCPError):
    """The entry comes from a project's config and was not approved; ``data`` has its ``hash``."""

    code = "needs_trust"


class NeedsInputError(MCPError):
    """The entry needs a value that only the user knows."""

    code = "needs_input"


class DisconnectedError(MCPError):
    """The server was disconnected by the host; ``connect`` revives it."""

    code = "disconnected"


class UnavailableError(MCPError):
    """The server failed earlier and the time to try it again has not come."""

    code = "unavailable"


class CrashLoopError(MCPError):
    """The server was started too often in a short time."""

    code = "crash_loop"


class OutcomeUnknownError(MCPError):
    """The connection was lost after the call was written: the tool may have run."""

    code = "outcome_unknown"


class InternalError(MCPError):
    """A bug in the library; please report it."""

    code = "internal"


class OutOfMemoryError(MCPError, MemoryError):
    """The library could not get memory."""

    code = "no_memory"


class LibraryError(MCPError, ImportError):
    """The shared library is missing, or does not fit this Python, this machine or this package."""

    code = "library"


class ForkError(LibraryError):
    """The library cannot be used in a child made by ``fork`` after the parent loaded it."""

    code = "fork"


class ReplyError(Exception):
    """Raise it in a request handler to answer the server with this JSON-RPC error.

    ``message`` is sent to the server, with ``code``, a JSON-RPC error code (-32603: an internal error).
    """

    def __init__(self, message: str, code: int = -32603) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Status:
    """The status codes of ``mcprt.h``."""

    OK: ClassVar[int] = 0
    EINVAL: ClassVar[int] = -1
    EHANDLE: ClassVar[int] = -2
    EFORK: ClassVar[int] = -3
    EVERSION: ClassVar[int] = -4
    ENOMEM: ClassVar[int] = -5
    EBUSY: ClassVar[int] = -6
    ETIMEOUT: ClassVar[int] = -7
    ECANCELED: ClassVar[int] = -8
    ECLOSED: ClassVar[int] = -9
    ERANGE: ClassVar[int] = -10
    ETAG: ClassVar[int] = -11
    EAGAIN: ClassVar[int] = -12
    EFAILED: ClassVar[int] = -20
    EINTERNAL: ClassVar[int] = -99


BY_CODE: Dict[str, Type[MCPError]] = {
    cls.code: cls
    for cls in (
        InvalidRequestError,
        UnknownServerError,
        UnknownToolError,
        ToolGoneError,
        FilteredError,
        TimeoutError,
        CanceledError,
        ClosedError,
        BusyError,
        ConfigError,
        SpawnFailedError,
        ExitedError,
        ConnectFailedError,
        ProtocolError,
        UnsupportedVersionError,
        TooLargeError,
        HTTPStatusError,
        RPCError,
        NeedsAuthError,
        NeedsTrustError,
        NeedsInputError,
        DisconnectedError,
        UnavailableError,
        CrashLoopError,
        OutcomeUnknownError,
        InternalError,
    )
}

FORKED = (
    "mcprt cannot be used in this process: it was forked after its parent had loaded mcprt; start workers with the "
    "'spawn' or 'forkserver' method, or make the first Runtime after the fork."
)
CLOSED = "this runtime is closed; make a new one."

# What a status says when no JSON came with it.
_BY_STATUS: Dict[int, "tuple[Type[MCPError], str]"] = {
    Status.EINVAL: (InvalidRequestError, "the library refused the request as malformed."),
    Status.EHANDLE: (ClosedError, CLOSED),
    Status.EFORK: (ForkError, FORKED),
    Status.EVERSION: (LibraryError, "the mcprt library does not fit this version of the mcprt package."),
    Status.ENOMEM: (OutOfMemoryError, "the mcprt library could not get memory."),
    Status.EBUSY: (BusyError, "too many operations are waiting; let some finish, or raise max_in_flight."),
    Status.ETIMEOUT: (TimeoutError, "the operation ran out of time."),
    Status.ECANCELED: (CanceledError, "the operation was cancelled."),
    Status.ECLOSED: (ClosedError, CLOSED),
    Status.ERANGE: (InternalError, "a buffer was too small; please report this bug of the mcprt package."),
    Status.ETAG: (InternalError, "a tag was used twice; please report this bug of the mcprt package."),
    Status.EAGAIN: (InternalError, "the operation is not done; please report this bug of the mcprt package."),
    Status.EINTERNAL: (InternalError, "a bug in the mcprt library was caught; please report it."),
}


def error_from(status: int, reply: bytes) -> MCPError:
    """The exception for a status below 0 and the JSON that came with it, which may be empty."""
    from ._json import members  # these raise errors, so they import this file first
    from ._types import CallResult

    parts = members(reply) if reply else {}
    error = _fields(parts["error"]) if "error" in parts else {}
    if not error:
        cls, message = _BY_STATUS.get(status, (MCPError, f"the operation failed with status {status}."))
        made = cls(message, retryable=status == Status.EBUSY)
    else:
        code = str(error.get("code"))
        made = BY_CODE.get(code, _BY_STATUS.get(status, (MCPError, ""))[0])(
            str(error.get("message", "")),
            server=error.get("server"),
            tool=error.get("tool"),
            stage=error.get("stage"),
            retryable=error.get("retryable") is True,
            data=error.get("data"),
            result=CallResult(reply) if "result" in parts else None,
        )
        made.code = code
    made.status = status
    return made


def _fields(error: bytes) -> Dict[str, Any]:
    """The members of an error. One that Python cannot hold (a server's own ``rpcData``) must not hide the others."""
    from ._json import decode, members

    fields: Dict[str, Any] = {}
    for name, raw in members(error).items():
        try:
            fields[name] = decode(raw)
        except ProtocolError:
            fields[name] = _fields(raw) if raw[:1] == b"{" else None
    return fields

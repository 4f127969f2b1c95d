"""MCP client runtime: the MCP servers of a project, discovered, connected, called and ended.

:class:`Runtime` blocks, :class:`AsyncRuntime` is for asyncio. Importing this package loads nothing; the shared library
is loaded with the first runtime.
"""

from . import _library
from ._aio import AsyncRuntime
from ._errors import (
    BusyError,
    CanceledError,
    ClosedError,
    ConfigError,
    ConnectFailedError,
    CrashLoopError,
    DisconnectedError,
    ExitedError,
    FilteredError,
    ForkError,
    HTTPStatusError,
    InternalError,
    InvalidRequestError,
    LibraryError,
    MCPError,
    NeedsAuthError,
    NeedsInputError,
    NeedsTrustError,
    OutcomeUnknownError,
    OutOfMemoryError,
    ProtocolError,
    ReplyError,
    RPCError,
    SpawnFailedError,
    TimeoutError,
    TooLargeError,
    ToolGoneError,
    UnavailableError,
    UnknownServerError,
    UnknownToolError,
    UnsupportedVersionError,
)
from ._events import AsyncEventStream, Event, EventStream, Request
from ._options import Options
from ._runtime import Runtime
from ._types import (
    CallResult,
    Changes,
    ConnectReport,
    Diagnostic,
    Discovery,
    FormattedTools,
    Listing,
    Progress,
    ReloadReport,
    ServerView,
    Stats,
    Tool,
)

__version__ = "0.1.0"


def library_version() -> str:
    """The version of the shared library, which this loads. Raises :class:`LibraryError`."""
    return _library.load().version


__all__ = [
    "AsyncEventStream",
    "AsyncRuntime",
    "BusyError",
    "CallResult",
    "CanceledError",
    "Changes",
    "ClosedError",
    "ConfigError",
    "ConnectFailedError",
    "ConnectReport",
    "CrashLoopError",
    "Diagnostic",
    "DisconnectedError",
    "Discovery",
    "Event",
    "EventStream",
    "ExitedError",
    "FilteredError",
    "ForkError",
    "FormattedTools",
    "HTTPStatusError",
    "InternalError",
    "InvalidRequestError",
    "LibraryError",
    "Listing",
    "MCPError",
    "NeedsAuthError",
    "NeedsInputError",
    "NeedsTrustError",
    "Options",
    "OutOfMemoryError",
    "OutcomeUnknownError",
    "Progress",
    "ProtocolError",
    "RPCError",
    "ReloadReport",
    "ReplyError",
    "Request",
    "Runtime",
    "ServerView",
    "Stats",
    "SpawnFailedError",
    "TimeoutError",
    "TooLargeError",
    "Tool",
    "ToolGoneError",
    "UnavailableError",
    "UnknownServerError",
    "UnknownToolError",
    "UnsupportedVersionError",
    "__version__",
    "library_version",
]

"""The blocking runtime."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional, Tuple, TypeVar, Union, overload

from . import _arguments, _library, _operations
from ._errors import FORKED, ForkError, Status, error_from
from ._events import EventStream, Handler, OnEvent
from ._operations import OnProgress, Operation
from ._options import Options, duration, encode_options, milliseconds, path_of
from ._pump import Pump
from ._types import (
    CallResult,
    ConnectReport,
    Discovery,
    FormattedTools,
    Json,
    Listing,
    ReloadReport,
    ServerView,
    Stats,
    Tool,
)

if TYPE_CHECKING:
    from typing_extensions import Literal, Self, Unpack

    from ._operations import Format
    from ._options import Path

T = TypeVar("T")

# How long a signal may wait: Python runs its handlers between two slices.
_SLICE_MS = 100


class Runtime:
    """The MCP servers of one project, for programs without an event loop.

    ::

        with mcprt.Runtime(cwd=".", project_trust="always") as rt:
            rt.connect()
            print(rt.call("mcp_demo_echo", {"text": "hi"}).text)

    Making one reads no file and starts no process. ``options`` has options under the C API's own names, for what this
    package does not know yet; it wins over the keywords, see :class:`Options`. ``on_event`` is called with every
    :class:`Event`, one at a time, in a thread of the runtime. ``on_request`` has a handler for each kind of request
    that this host answers (``"elicitation"``, ``"sampling"``, ``"roots"``, ``"authorization"``, ``"input"``), called
    in a thread of its own; see :class:`Request`. ``library`` is the path of the shared library, where it is not to be the one
    that the package finds; a process uses one library.

    Any thread may use a runtime, also several at once. Ctrl-C ends a call that the main thread is in, and cancels it
    at the server. Timeouts are in seconds. Every verb raises :class:`MCPError` or a subclass of it for what the
    library reports, :class:`InvalidRequestError` (also a ``ValueError`` and a ``TypeError``) for a wrong argument.
    """

    def __init__(
        self,
        *,
        options: Optional[Mapping[str, Any]] = None,
        on_event: Optional[OnEvent] = None,
        on_request: Optional[Mapping[str, Handler]] = None,
        library: Optional[Path] = None,
        **keywords: Unpack[Options],
    ) -> None:
        handlers = _arguments.handlers(on_request)
        _arguments.function("on_event", on_event)
        encoded = encode_options(keywords, options, sorted(handlers))
        self._library = _library.load(None if library is None else path_of(library))
        self._generation = _library.generation
        status, self._handle, reply = self._library.open(encoded)
        if status != Status.OK:
            raise error_from(status, reply)
        self._finalizer = weakref.finalize(self, self._library.free, self._handle)
        self._tags = itertools.count(1)
        self._pump = Pump(self._library, self._handle, on_event, handlers)
        if on_event is not None or handlers:
            self._pump.start()

    def close(self, grace: Optional[float] = None) -> None:
        """Ends all servers and everything in flight (with :class:`ClosedError`).

        Takes at most ``grace`` seconds (default: the option's) and one more. Closing again is allowed.
        """
        self._check_fork()
        status = Status.ECLOSED
        if _in_main_thread():
            status, _ = self._held(_operations.close(grace))
        if status != Status.OK:
            # Another thread may be closing: this waits for it.
            self._library.close(self._handle, -1 if grace is None else milliseconds(grace))
        self._pump.join()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the verbs

    def discover(self) -> Discovery:
        """Reads the config files. Starts nothing."""
        return self._run(_operations.discover())

    def connect(
        self,
        only: Optional[Iterable[str]] = None,
        *,
        servers: Optional[Mapping[str, Mapping[str, Any]]] = None,
        startup_timeout: Optional[float] = None,
        uncached: Optional[Literal["wait", "background"]] = None,
        gate: Optional[Literal["timer", "eager"]] = None,
        trust: Optional[Mapping[str, str]] = None,
        authorize: Optional[Iterable[str]] = None,
        restart: bool = False,
        tools: bool = True,
    ) -> ConnectReport:
        """Connects all servers, or those of ``only``, in parallel; discovers first if nothing was.

        Returns after the start-up gate at the latest, except for servers whose tools are not cached (``uncached``).
        ``startup_timeout`` (seconds), ``uncached`` and ``gate`` stand in for the options of the runtime. ``servers`` adds
        inline ones. ``trust`` approves entries by the hash that :meth:`discover` showed. ``authorize`` names servers that
        may ask the user to sign in. ``restart`` replaces running servers. ``tools=False`` leaves the tools out of the
        report. A server that fails is no exception: see :attr:`ConnectReport.errors`.
        """
        return self._run(
            _operations.connect(
                only, servers, startup_timeout, uncached, gate, trust, authorize, restart, tools
            )
        )

    @overload
    def list(
        self,
        *,
        server: Optional[str] = ...,
        names: Optional[Iterable[str]] = ...,
        search: Optional[str] = ...,
        refresh: bool = ...,
        if_revision: None = ...,
    ) -> Listing[Tool]: ...

    @overload
    def list(
        self,
        *,
        server: Optional[str] = ...,
        names: Optional[Iterable[str]] = ...,
        search: Optional[str] = ...,
        refresh: bool = ...,
        if_revision: int,
    ) -> Optional[Listing[Tool]]: ...

    def list(
        self,
        *,
        server: Optional[str] = None,
        names: Optional[Iterable[str]] = None,
        search: Optional[str] = None,
        refresh: bool = False,
        if_revision: Optional[int] = None,
    ) -> Optional[Listing[Tool]]:
        """The tools known now, sorted by name.

        Only those of ``server``, of these ``names``, or that match the words of ``search``. None where nothing changed
        since ``if_revision``, the ``revision`` of a list that you hold. Asks no server, except with ``refresh``: then the
        server, or every ready one, is asked for its tools anew first, and those that fail keep the tools that they had.
        """
        return self._run(_operations.tools(server, names, search, if_revision, refresh))

    def tools(
        self,
        format: Format,
        *,
        server: Optional[str] = None,
        names: Optional[Iterable[str]] = None,
        search: Optional[str] = None,
    ) -> FormattedTools:
        """The tools known now as a model's provider takes them: plain dicts for its request's ``tools``.

        "openai" is Chat Completions, "openai-responses" the Responses API; what "gemini" gives are function
        declarations. ``server``, ``names`` and ``search`` choose as in :meth:`list`. Give what the model calls to
        :meth:`call` with the same ``format``. See docs/adapters.md.
        """
        return self._run(_operations.formatted_tools(format, server, names, search))

    def servers(self) -> Listing[ServerView]:
        """The state of every server; asks no server."""
        return self._run(_operations.servers())

    def resources(self, server: Optional[str] = None, *, timeout: Optional[float] = None) -> Listing[Json]:
        """The resources of one server, or of every one that is ready, as MCP defines them.

        They are asked of the servers, for at most ``timeout`` seconds.
        """
        return self._run(_operations.items("resources", server, timeout))

    def resource_templates(self, server: Optional[str] = None, *, timeout: Optional[float] = None) -> Listing[Json]:
        """The resource templates of one server, or of every one that is ready, as MCP defines them.

        They are asked of the servers, for at most ``timeout`` seconds.
        """
        return self._run(_operations.items("resourceTemplates", server, timeout))

    def prompts(self, server: Optional[str] = None, *, timeout: Optional[float] = None) -> Listing[Json]:
        """The prompts of one server, or of every one that is ready, as MCP defines them.

        They are asked of the servers, for at most ``timeout`` seconds.
        """
        return self._run(_operations.items("prompts", server, timeout))

    def call(
        self,
        name: str,
        arguments: Union[Mapping[str, Any], str, None] = None,
        *,
        server: Optional[str] = None,
        timeout: Optional[float] = None,
        progress: Union[bool, OnProgress] = False,
        meta: Optional[Mapping[str, Any]] = None,
        retry: Optional[Literal["safe", "always", "never"]] = None,
        format: Optional[Format] = None,
        call_id: Optional[str] = None,
    ) -> CallResult:
        """Calls a tool by its name in :meth:`list`, or with ``server`` by that server's own name for it.

        ``arguments`` are what its ``input_schema`` describes. A deferred tool's server is waited for. A tool that reports
        its own failure gives a result with ``is_error``. ``timeout`` is in seconds, ``math.inf`` for none; the server learns of
        a call that is given up. ``progress`` is called with each :class:`Progress` before this returns (what it raises
        ends the call), or True for events alone. ``retry`` says whether a call may be sent again after a lost
        connection; the default, "safe", does so only for tools that declare themselves read-only or idempotent. ``meta`` is
        sent as ``_meta``. Raises, among others, :class:`UnknownToolError`, :class:`TimeoutError`, :class:`RPCError`,
        :class:`ExitedError`, or :class:`OutcomeUnknownError` when the tool may have run.

        With ``format``, name and arguments are as the model wrote them for a tool of :meth:`tools`, the arguments as
        a dict or as JSON text; the result's :attr:`CallResult.message` answers the call ``call_id``. A failed call
        has one, too, in the ``result`` of the exception.
        """
        return self._run(
            _operations.call(name, arguments, server, timeout, progress, meta, retry, format, call_id)
        )

    def request(
        self,
        server: Optional[str],
        method: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        progress: Union[bool, OnProgress] = False,
        meta: Optional[Mapping[str, Any]] = None,
    ) -> CallResult:
        """Any other request of MCP: its ``method``, such as "resources/read" or "prompts/get", and ``params``.

        ``server`` is None for methods of the library itself ("mcprt/..."). ``timeout``, ``progress`` and ``meta`` are
        those of :meth:`call`.
        """
        return self._run(_operations.request(server, method, params, timeout, progress, meta))

    def login(self, server: str, *, timeout: Optional[float] = None) -> Json:
        """Connects a server, and asks its user to sign in where that is needed.

        The question goes to the handler of ``"authorization"`` in ``on_request``, or to the system's browser if the
        option ``auth`` says so. Returns when the server is ready: ``{"server", "signedIn", "issuer", "scopes",
        "expiresAt"}``; ``signedIn`` is False for a server that is used without. ``timeout`` is in seconds; without
        one a question stays open as long as the option ``request_timeout`` allows. Raises :class:`NeedsAuthError`
        when nobody signed in, with the reason.
        """
        return self._run(_operations.sign("login", server, timeout))

    def logout(self, server: str, *, timeout: Optional[float] = None) -> Json:
        """Forgets the sign-in to a server, here and in the store, and tells the authorization server so.

        Returns ``{"server", "signedOut", "revoked"}``: whether there was one, and whether it was taken back there.
        ``timeout`` is in seconds.
        """
        return self._run(_operations.sign("logout", server, timeout))

    def stats(self) -> Stats:
        """Calls, errors, bytes, restarts and latencies of each server since the runtime was opened."""
        return self._run(_operations.stats())

    def reload(
        self,
        mode: Literal["diff", "full"] = "diff",
        *,
        startup_timeout: Optional[float] = None,
        uncached: Optional[Literal["wait", "background"]] = None,
        gate: Optional[Literal["timer", "eager"]] = None,
        tools: bool = True,
    ) -> ReloadReport:
        """Reads the config files again.

        With the ``mode`` "diff" every server whose config did not change is kept, "full" keeps none.
        ``startup_timeout`` (seconds), ``uncached`` and ``gate`` stand in for the options of the runtime.
        ``tools=False`` leaves the tools out of the report.
        """
        return self._run(_operations.reload(mode, startup_timeout, uncached, gate, tools))

    def disconnect(self, server: Optional[str] = None) -> List[str]:
        """Ends one server, or all; the names of those it ended. :meth:`connect` revives them."""
        return self._run(_operations.disconnect(server))

    def events(self, timeout: Optional[float] = None) -> EventStream:
        """Iterates over events, until the runtime is closed or none came for ``timeout`` seconds.

        Without ``on_event`` and handlers, the first stream also has what happened before (at most 4096 events).
        """
        self._check_fork()
        return self._pump.open_stream(None if timeout is None else duration(timeout))

    # ---- how a verb runs

    def _check_fork(self) -> None:
        if self._generation != _library.generation:
            raise ForkError(FORKED)

    def _run(self, operation: Operation[T]) -> T:
        self._check_fork()
        if operation.on_progress is not None:
            status, reply = self._pump.run(next(self._tags), operation)
        elif operation.has_progress or _in_main_thread():
            status, reply = self._held(operation)
        else:
            status, reply = self._library.verb(self._handle, operation.verb, operation.encode())
        return operation.finish(status, reply)

    def _held(self, operation: Operation[Any]) -> Tuple[int, bytes]:
        """Waits in slices, so that Python can run its signal handlers, and leaves nothing behind if one raises."""
        tag = next(self._tags)
        try:
            status = self._library.submit(
                self._handle, operation.verb, _library.F_HOLD, tag, operation.encode()
            )
            reply = b""
            if status == Status.OK:
                status = Status.EAGAIN
            while status == Status.EAGAIN:
                status, reply = self._library.take_held(self._handle, tag, _SLICE_MS)
            return status, reply
        except BaseException:
            self._library.cancel(self._handle, tag, _library.F_FORGET)
            raise


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()

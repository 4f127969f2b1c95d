"""What the verbs give back.

Each object holds the library's reply as bytes and decodes it when first asked. ``raw`` is always exact: what a server
sent is in it byte for byte, also where Python's own types would lose something. Objects do not change, and may be
read from any thread.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Callable, Dict, Generic, List, Mapping, NamedTuple, Optional, TypeVar, cast

from . import _json
from ._errors import MCPError, ProtocolError, error_from

T = TypeVar("T")
Json = Dict[str, Any]


class Progress(NamedTuple):
    """How far a call is, as the server says.

    ``progress`` grows, in the server's own unit, up to ``total``. ``total`` and ``message`` are None where it did not say.
    """

    progress: float
    total: Optional[float]
    message: Optional[str]


class Reply:
    """A JSON object from the library: ``raw`` has its bytes as they came."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @cached_property
    def data(self) -> Json:
        """The decoded object, under the C API's names; do not change it."""
        decoded = _json.decode(self.raw)
        if not isinstance(decoded, dict):
            raise ProtocolError("the mcprt library gave no JSON object.", stage="decode")
        return cast(Json, decoded)

    def __repr__(self) -> str:
        shown = self.raw[:200].decode("utf-8", "replace")
        return f"<{type(self).__name__} {shown}{'...' if len(self.raw) > 200 else ''}>"


class CallResult:
    """The result of a tool call, or of another request.

    A tool that reports its own failure gives a result with ``is_error``, not an exception.
    """

    def __init__(self, reply: bytes) -> None:
        self._reply = reply

    @cached_property
    def raw(self) -> bytes:
        """The result exactly as the server sent it."""
        return _json.members(self._reply)["result"]

    @cached_property
    def data(self) -> Any:
        """The decoded result: an object, except where a server's own method answers with something else."""
        return self._decoded["result"]

    @property
    def content(self) -> List[Json]:
        """The content blocks; empty where the result has none."""
        blocks = self._member("content")
        return [cast(Json, block) for block in _list(blocks) if isinstance(block, dict)]

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(
            block["text"]
            for block in self.content
            if block.get("type") == "text" and isinstance(block.get("text"), str)
        )

    @property
    def structured(self) -> Any:
        """``structuredContent``, or None."""
        return self._member("structuredContent")

    @property
    def meta(self) -> Json:
        """``_meta``, empty where there is none."""
        return _object(self._member("_meta"))

    @property
    def is_error(self) -> bool:
        """The tool ran and reports that it failed."""
        return self._member("isError") is True

    @property
    def message(self) -> Json:
        """What answers the model, in the shape of the call's ``format``; ``KeyError`` for a call without one.

        "openai": a message. "openai-responses": an item of the input. "anthropic" and "gemini": a block or part of
        the user's next message.
        """
        return dict(self._decoded["message"])

    @property
    def follow_up(self) -> Optional[Json]:
        """A message of the user with the pictures, sound and PDFs that "openai" has no place for in :attr:`message`.

        It belongs behind the answers to all calls of the same turn. None for most results, and in other formats.
        """
        return self._decoded.get("followUp")

    @cached_property
    def _decoded(self) -> Json:
        return dict(_json.decode(self._reply))

    def _member(self, name: str) -> Any:
        return _object(self.data).get(name)

    def __repr__(self) -> str:
        # A result without text, of "resources/read" say, would look empty.
        shown = repr(self.text[:200]) if self.text else self.raw[:200].decode("utf-8", "replace")
        return f"<CallResult{' is_error' if self.is_error else ''} {shown}>"


class Stats:
    """What was counted since the runtime was opened (docs/options.md has each number).

    ``data`` has all members, under the C API's names (durations in milliseconds); do not change it.
    """

    def __init__(self, reply: bytes) -> None:
        self.data: Json = CallResult(reply).data

    @property
    def servers(self) -> Dict[str, Json]:
        """The numbers of each server by its name, such as ``calls``, ``errors`` and ``latency``."""
        return {str(server["name"]): server for server in self.data["servers"]}

    def __repr__(self) -> str:
        return f"<Stats of {', '.join(self.servers) or 'no server'}>"


class Tool:
    """One tool of one server.

    ``data`` has all members, under the C API's names (durations in milliseconds); do not change it.
    """

    def __init__(self, data: Json, raw: Callable[[], bytes]) -> None:
        self.data = data
        self._raw = raw

    @cached_property
    def raw(self) -> bytes:
        """This tool as the library gave it; schemas, annotations and ``_meta`` in it are the server's own bytes."""
        return self._raw()

    @property
    def name(self) -> str:
        """The name to call it by, and to show to a model."""
        return str(self.data["name"])

    @property
    def server(self) -> str:
        """The name of its server, as the config has it."""
        return str(self.data["server"])

    @property
    def tool(self) -> str:
        """The server's own name for it."""
        return str(self.data["tool"])

    @property
    def label(self) -> str:
        """A short text for lists that people see, such as ``mcp:files via MCP``."""
        return str(self.data.get("label", ""))

    @property
    def title(self) -> Optional[str]:
        """The server's title for people; None where it has none."""
        return self.data.get("title")

    @property
    def description(self) -> str:
        """What it does, in the server's words, for a model; empty where there are none."""
        return self.data.get("description") or ""

    @property
    def input_schema(self) -> Json:
        """The JSON Schema of its arguments; do not change it."""
        return self.data.get("inputSchema") or {}

    @property
    def output_schema(self) -> Optional[Json]:
        """The JSON Schema of ``structured``; None where the server gives none."""
        return self.data.get("outputSchema")

    @property
    def annotations(self) -> Json:
        """What the server claims of it, such as ``readOnlyHint``; not to be trusted more than the server is."""
        return self.data.get("annotations") or {}

    @property
    def meta(self) -> Json:
        """``_meta``, empty where there is none."""
        return self.data.get("_meta") or {}

    @property
    def deferred(self) -> bool:
        """Known from the cache, its server is still starting; a call waits for it."""
        return self.data.get("deferred") is True

    @property
    def stale(self) -> bool:
        """Deferred, and older than its server said it stays valid."""
        return self.data.get("stale") is True

    @property
    def unavailable(self) -> bool:
        """Its server failed; a call gives the reason."""
        return self.data.get("unavailable") is True

    @property
    def fetched_at(self) -> Optional[str]:
        """When the definition was read from the server: RFC 3339."""
        return self.data.get("fetchedAt")

    def __repr__(self) -> str:
        marks = [mark for mark in ("deferred", "stale", "unavailable") if self.data.get(mark) is True]
        return f"<Tool {' '.join([self.name, *marks])}>"


class ServerView:
    """The state of one server at one moment.

    ``data`` has all members, under the C API's names (durations in milliseconds); do not change it.
    """

    def __init__(self, data: Json) -> None:
        self.data = data

    @property
    def name(self) -> str:
        """Its name in the config."""
        return str(self.data["name"])

    @property
    def status(self) -> str:
        """"connected", "connecting" or "disconnected"."""
        return str(self.data["status"])

    @property
    def state(self) -> str:
        """The exact state, such as "ready", "backoff" or "needs_trust"."""
        return str(self.data["state"])

    @property
    def tool_count(self) -> int:
        """How many tools it has, deferred ones included."""
        return int(self.data.get("toolCount") or 0)

    @property
    def protocol_version(self) -> Optional[str]:
        """The version of MCP that is spoken with it, such as "2026-07-28"; None before a connection."""
        return self.data.get("protocolVersion")

    @property
    def server_info(self) -> Json:
        """What it says of itself: ``name``, ``version`` and more; empty before a connection."""
        return self.data.get("serverInfo") or {}

    @property
    def instructions(self) -> Optional[str]:
        """How it wants to be used, in its words, for a model; None where there are none."""
        return self.data.get("instructions")

    @property
    def connect_seconds(self) -> Optional[float]:
        """How long the last connect took."""
        taken = self.data.get("connectMs")
        return None if taken is None else taken / 1000

    @property
    def error(self) -> Optional[MCPError]:
        """Why it is not connected."""
        return _error(self.data.get("error"))

    @property
    def retry_at(self) -> Optional[str]:
        """When it is tried again: RFC 3339."""
        return self.data.get("retryAt")

    @property
    def source(self) -> Json:
        """Which config file it comes from."""
        return self.data.get("source") or {}

    @property
    def pid(self) -> Optional[int]:
        """The process of a stdio server; None where none runs."""
        return self.data.get("pid") or None

    def __repr__(self) -> str:
        return f"<ServerView {self.name} {self.state}>"


class Diagnostic:
    """Something to know about a config file or a server that stops nothing else.

    ``data`` has all members, under the C API's names (durations in milliseconds); do not change it.
    """

    def __init__(self, data: Json) -> None:
        self.data = data

    @property
    def severity(self) -> str:
        """"error", "warning" or "note"."""
        return str(self.data.get("severity", ""))

    @property
    def code(self) -> str:
        """Which kind it is, such as "unresolved_variable" (docs/config.md)."""
        return str(self.data.get("code", ""))

    @property
    def message(self) -> str:
        """What is wrong and what to do, in one sentence."""
        return str(self.data.get("message", ""))

    @property
    def server(self) -> Optional[str]:
        """The server that it is about; None where it is about a file."""
        return self.data.get("server")

    @property
    def path(self) -> Optional[str]:
        """The config file; None where it is about none."""
        return self.data.get("path")

    @property
    def line(self) -> Optional[int]:
        """The line in the file, from 1; None where that is not known."""
        return self.data.get("line")

    @property
    def column(self) -> Optional[int]:
        """The column in the line, from 1, in characters; None where that is not known."""
        return self.data.get("column")

    def __repr__(self) -> str:
        return f"<Diagnostic {self.severity} {self.code}: {self.message}>"


class Listing(List[T], Generic[T]):
    """A list that knows which state it shows.

    ``raw`` is the library's reply. ``revision`` counts changes of the tools and servers: give it as ``if_revision`` to
    learn cheaply whether something changed.
    """

    def __init__(self, items: List[T], raw: bytes, revision: int) -> None:
        super().__init__(items)
        self.raw = raw
        self.revision = revision


class FormattedTools(Listing[Json]):
    """Tools as a model's provider takes them, ready for its request. ``names`` has :attr:`Tool.name` of each tool whose name
    the provider does not take, by the name that it has here."""

    def __init__(self, items: List[Json], raw: bytes, revision: int, names: Dict[str, str]) -> None:
        super().__init__(items, raw, revision)
        self.names = names


class Discovery(Reply):
    """The servers that the config files name."""

    @property
    def servers(self) -> List[Json]:
        """What could be started, disabled entries included: name, transport, enabled, trusted, hash, source, config."""
        return list(self.data.get("servers") or [])

    @property
    def shadowed(self) -> List[Json]:
        """Entries that another file's entry of the same name hides."""
        return list(self.data.get("shadowed") or [])

    @property
    def diagnostics(self) -> List[Diagnostic]:
        """What is wrong in the files."""
        return _diagnostics(self.data)

    @property
    def exa_api_keys(self) -> List[str]:
        """Keys of the Exa servers that ``filter_exa`` left out, for the host's own search."""
        return list(self.data.get("exaApiKeys") or [])


class ConnectReport(Reply):
    """Where every server stands when ``connect`` returns."""

    @property
    def revision(self) -> int:
        """Counts changes of tools and servers; see :class:`Listing`."""
        return int(self.data.get("revision") or 0)

    @property
    def elapsed_seconds(self) -> float:
        """How long this took."""
        return float(self.data.get("elapsedMs") or 0) / 1000

    @cached_property
    def tools(self) -> Listing[Tool]:
        """All tools, live and deferred; empty where the request had ``tools=False``."""
        return _tools(self.raw, self.data)

    @property
    def servers(self) -> List[ServerView]:
        """The state of every server."""
        return [ServerView(view) for view in _list(self.data.get("servers"))]

    @property
    def connected(self) -> List[str]:
        """Servers that are ready, by name."""
        return list(self.data.get("connected") or [])

    @property
    def deferred(self) -> List[str]:
        """Servers still starting whose tools are known from the cache."""
        return list(self.data.get("deferred") or [])

    @property
    def pending(self) -> List[str]:
        """Servers still starting."""
        return list(self.data.get("pending") or [])

    @property
    def needs_trust(self) -> List[Json]:
        """Entries to show to the user: name, hash, path, command, args, url. Approve with ``connect(trust={...})``."""
        return list(self.data.get("needsTrust") or [])

    @property
    def needs_auth(self) -> List[Any]:
        """Servers that want their user to sign in, by name: see :meth:`Runtime.login`."""
        return list(self.data.get("needsAuth") or [])

    @property
    def needs_input(self) -> List[Any]:
        """What only a person has: ``{"server", "inputs": [{"id", "description", "password"}]}``. Calls ask for it."""
        return list(self.data.get("needsInput") or [])

    @property
    def errors(self) -> Dict[str, MCPError]:
        """Why a server is not connected, by its name. These are not raised."""
        errors: Mapping[str, Any] = self.data.get("errors") or {}
        return {name: made for name, error in errors.items() if (made := _error(error)) is not None}

    @property
    def diagnostics(self) -> List[Diagnostic]:
        """What is wrong in the files, and with servers that run all the same."""
        return _diagnostics(self.data)


class Changes(NamedTuple):
    """What a reload did with the servers, by name.

    ``added`` and ``removed`` are new and gone in the files, ``changed`` were started again, ``kept`` run on untouched.
    """

    added: List[str]
    removed: List[str]
    changed: List[str]
    kept: List[str]


class ReloadReport(ConnectReport):
    """As :class:`ConnectReport`, and what changed."""

    @property
    def changes(self) -> Changes:
        """What happened to the servers, by name."""
        changes = _object(self.data.get("changes"))
        return Changes(*(_list(changes.get(name)) for name in Changes._fields))


def tools_listing(reply: bytes) -> Optional[Listing[Tool]]:
    """None where nothing changed since the revision that the request named."""
    data = _json.decode(reply)
    return None if data.get("unchanged") else _tools(reply, data)


def parse_formatted(reply: bytes) -> FormattedTools:
    data = _json.decode(reply)
    return FormattedTools(data["tools"], reply, int(data["revision"]), data.get("names") or {})


def listing(member: str, make: Callable[[Any], T]) -> Callable[[bytes], Listing[T]]:
    """A parser of a list's reply, whose items are in ``member``."""

    def parse(reply: bytes) -> Listing[T]:
        data = _json.decode(reply)
        return Listing([make(item) for item in _list(data.get(member))], reply, int(data.get("revision") or 0))

    return parse


def _tools(raw: bytes, data: Json) -> Listing[Tool]:
    cuts: List[bytes] = []

    def cut(index: int) -> bytes:
        if not cuts:
            cuts.extend(_json.elements(_json.members(raw)["tools"]))
        return cuts[index]

    items = [Tool(tool, lambda i=i: cut(i)) for i, tool in enumerate(data.get("tools") or [])]  # type: ignore[misc]
    return Listing(items, raw, int(data.get("revision") or 0))


def _object(value: Any) -> Json:
    """Empty where a server sent something else."""
    return cast(Json, value) if isinstance(value, dict) else {}


def _list(value: Any) -> List[Any]:
    """Empty where a server sent something else."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _diagnostics(data: Json) -> List[Diagnostic]:
    return [Diagnostic(item) for item in _list(data.get("diagnostics"))]


def _error(error: Optional[Json]) -> Optional[MCPError]:
    return error_from(-20, _json.encode({"error": error})) if error else None

"""The verbs as data: what to send, and how to read the answer.

Both runtimes run these, so that what a verb means is said once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Iterable, List, Mapping, Optional, TypeVar, Union

from . import _arguments, _library
from ._errors import error_from
from ._json import encode, holds_half_pairs, written
from ._options import limit, milliseconds
from ._types import (
    CallResult,
    ConnectReport,
    Discovery,
    FormattedTools,
    Json,
    Listing,
    Progress,
    ReloadReport,
    Reply,
    ServerView,
    Stats,
    Tool,
    listing,
    parse_formatted,
    tools_listing,
)

if TYPE_CHECKING:
    from typing_extensions import Literal

    Format = Literal["openai", "openai-responses", "anthropic", "gemini"]

T = TypeVar("T")
OnProgress = Callable[[Progress], object]


class Operation(Generic[T]):
    """One use of a verb. ``timeout`` is in seconds; None leaves it to the library."""

    def __init__(
        self,
        verb: int,
        request: Dict[str, Any],
        parse: Callable[[bytes], T],
        *,
        timeout: Optional[float] = None,
        progress: Union[bool, OnProgress] = False,
    ) -> None:
        if not isinstance(progress, bool):
            _arguments.function("progress", progress)
        self.verb = verb
        self.timeout = timeout
        self.on_progress = progress if callable(progress) else None
        self._request = {name: value for name, value in request.items() if value is not None}
        self._parse = parse
        #: Notices of this operation are wanted; the library sends them only to one with a tag.
        self.has_progress = bool(progress)
        if timeout is not None:
            self._request["timeoutMs"] = limit(timeout)
        if progress:
            self._request["progress"] = True

    def encode(self) -> bytes:
        return encode(self._request)

    def encode_after(self, started: float) -> bytes:
        """As :meth:`encode`, with what is left of the timeout that began at ``started`` (``time.monotonic``)."""
        if self._request.get("timeoutMs"):
            left = self._request["timeoutMs"] - int((time.monotonic() - started) * 1000)  # a timeout is never early
            return encode({**self._request, "timeoutMs": max(1, left)})
        return self.encode()

    def finish(self, status: int, reply: bytes) -> T:
        if status < 0:
            raise error_from(status, reply)
        return self._parse(reply)


def discover() -> Operation[Discovery]:
    return Operation(_library.DISCOVER, {}, Discovery)


def connect(
    only: Optional[Iterable[str]],
    servers: Optional[Mapping[str, Mapping[str, Any]]],
    startup_timeout: Optional[float],
    uncached: Optional[str],
    gate: Optional[str],
    trust: Optional[Mapping[str, str]],
    authorize: Optional[Iterable[str]],
    restart: bool,
    tools: bool,
) -> Operation[ConnectReport]:
    request = {
        "only": _arguments.names("only", only),
        "servers": servers,
        "startupTimeoutMs": None if startup_timeout is None else limit(startup_timeout),
        "uncached": uncached,
        "gate": gate,
        "trust": trust,
        "authorize": _arguments.names("authorize", authorize),
        "restart": restart or None,
        "tools": tools,
    }
    return Operation(_library.CONNECT, request, ConnectReport)


def tools(
    server: Optional[str],
    names: Optional[Iterable[str]],
    search: Optional[str],
    if_revision: Optional[int],
    refresh: bool,
) -> Operation[Optional[Listing[Tool]]]:
    request = {"kind": "tools", "server": server, "names": _arguments.names("names", names), "search": search, "ifRevision": if_revision}
    if refresh:
        request["refresh"] = True
    return Operation(_library.LIST, request, tools_listing)


def formatted_tools(
    format: str, server: Optional[str], names: Optional[Iterable[str]], search: Optional[str]
) -> Operation[FormattedTools]:
    request = {"format": format, "server": server, "names": _arguments.names("names", names), "search": search}
    return Operation(_library.LIST, request, parse_formatted)


def servers() -> Operation[Listing[ServerView]]:
    return Operation(_library.LIST, {"kind": "servers"}, listing("servers", ServerView))


def items(
    kind: Literal["resources", "resourceTemplates", "prompts"], server: Optional[str], timeout: Optional[float]
) -> Operation[Listing[Json]]:
    request = {"kind": kind, "server": server}
    return Operation(_library.LIST, request, listing(kind, _item), timeout=timeout)


def call(
    name: str,
    arguments: Union[Mapping[str, Any], str, None],
    server: Optional[str],
    timeout: Optional[float],
    progress: Union[bool, OnProgress],
    meta: Optional[Mapping[str, Any]],
    retry: Optional[str],
    format: Optional[str] = None,
    call_id: Optional[str] = None,
) -> Operation[CallResult]:
    request = {
        "server": server,
        "tool": name,
        "arguments": _of_a_model(arguments) if format else _arguments.mapping("arguments", arguments),
        "_meta": meta,
        "retry": retry,
        "format": format,
        "callId": call_id,
    }
    return Operation(_library.CALL, request, CallResult, timeout=timeout, progress=progress)


def _of_a_model(arguments: Any) -> Any:
    """What a model wrote is no mistake of the program: the library judges it, and the model is told."""
    return written(arguments) if holds_half_pairs(arguments) else arguments


def request(
    server: Optional[str],
    method: str,
    params: Optional[Mapping[str, Any]],
    timeout: Optional[float],
    progress: Union[bool, OnProgress],
    meta: Optional[Mapping[str, Any]],
) -> Operation[CallResult]:
    sent = {"server": server, "method": method, "params": _arguments.mapping("params", params), "_meta": meta}
    return Operation(_library.CALL, sent, CallResult, timeout=timeout, progress=progress)


def sign(way: str, server: str, timeout: Optional[float]) -> Operation[Json]:
    sent = {"method": "mcprt/auth." + way, "params": {"server": server}}
    return Operation(_library.CALL, sent, lambda reply: dict(CallResult(reply).data), timeout=timeout)


def stats() -> Operation[Stats]:
    return Operation(_library.CALL, {"method": "mcprt/stats"}, Stats)


def reload(
    mode: str, startup_timeout: Optional[float], uncached: Optional[str], gate: Optional[str], tools: bool
) -> Operation[ReloadReport]:
    request = {
        "mode": mode,
        "startupTimeoutMs": None if startup_timeout is None else limit(startup_timeout),
        "uncached": uncached,
        "gate": gate,
        "tools": tools,
    }
    return Operation(_library.RELOAD, request, ReloadReport)


def disconnect(server: Optional[str]) -> Operation[List[str]]:
    return Operation(_library.DISCONNECT, {"server": server}, _disconnected)


def close(grace: Optional[float]) -> Operation[None]:
    request = {"graceMs": None if grace is None else milliseconds(grace)}
    return Operation(_library.CLOSE, request, lambda reply: None)


def _disconnected(reply: bytes) -> List[str]:
    return list(Reply(reply).data.get("disconnected") or [])


def _item(item: Any) -> Json:
    return dict(item)

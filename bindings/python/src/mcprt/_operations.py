"""The verbs as data: what to send, and how to read the answer.

Both runtimes run these, so that what a verb means is said once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Iterable, List, Mapping, Optional, TypeVar, Union

from . import _library, _types
from ._errors import error_from
from ._json import encode
from ._options import limit, milliseconds

if TYPE_CHECKING:
    from typing_extensions import Literal

T = TypeVar("T")
OnProgress = Callable[[_types.Progress], object]


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


def _names(names: Optional[Iterable[str]]) -> Optional[List[str]]:
    if isinstance(names, str):
        raise TypeError(f"names must be a list, not one string: [{names!r}]")
    return None if names is None else list(names)


def discover() -> Operation[_types.Discovery]:
    return Operation(_library.DISCOVER, {}, _types.Discovery)


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
) -> Operation[_types.ConnectReport]:
    request = {
        "only": _names(only),
        "servers": servers,
        "startupTimeoutMs": None if startup_timeout is None else limit(startup_timeout),
        "uncached": uncached,
        "gate": gate,
        "trust": trust,
        "authorize": _names(authorize),
        "restart": restart or None,
        "tools": tools,
    }
    return Operation(_library.CONNECT, request, _types.ConnectReport)


def tools(
    server: Optional[str],
    names: Optional[Iterable[str]],
    search: Optional[str],
    if_revision: Optional[int],
    refresh: bool,
) -> Operation[Optional[_types.Listing[_types.Tool]]]:
    request = {"kind": "tools", "server": server, "names": _names(names), "search": search, "ifRevision": if_revision}
    if refresh:
        request["refresh"] = True
    return Operation(_library.LIST, request, _types.tools_listing)


def servers() -> Operation[_types.Listing[_types.ServerView]]:
    return Operation(_library.LIST, {"kind": "servers"}, _types.listing("servers", _types.ServerView))


def items(
    kind: Literal["resources", "resourceTemplates", "prompts"], server: Optional[str], timeout: Optional[float]
) -> Operation[_types.Listing[_types.Json]]:
    request = {"kind": kind, "server": server}
    return Operation(_library.LIST, request, _types.listing(kind, _item), timeout=timeout)


def call(
    name: str,
    arguments: Optional[Mapping[str, Any]],
    server: Optional[str],
    timeout: Optional[float],
    progress: Union[bool, OnProgress],
    meta: Optional[Mapping[str, Any]],
    retry: Optional[str],
) -> Operation[_types.CallResult]:
    request = {"server": server, "tool": name, "arguments": arguments or {}, "_meta": meta, "retry": retry}
    return Operation(_library.CALL, request, _types.CallResult, timeout=timeout, progress=progress)


def request(
    server: Optional[str],
    method: str,
    params: Optional[Mapping[str, Any]],
    timeout: Optional[float],
    progress: Union[bool, OnProgress],
    meta: Optional[Mapping[str, Any]],
) -> Operation[_types.CallResult]:
    sent = {"server": server, "method": method, "params": params or {}, "_meta": meta}
    return Operation(_library.CALL, sent, _types.CallResult, timeout=timeout, progress=progress)


def sign(way: str, server: str, timeout: Optional[float]) -> Operation[_types.Json]:
    sent = {"method": "mcprt/auth." + way, "params": {"server": server}}
    return Operation(_library.CALL, sent, lambda reply: dict(_types.CallResult(reply).data), timeout=timeout)


def stats() -> Operation[_types.Stats]:
    return Operation(_library.CALL, {"method": "mcprt/stats"}, _types.Stats)


def reload(mode: str, tools: bool) -> Operation[_types.ReloadReport]:
    return Operation(_library.RELOAD, {"mode": mode, "tools": tools}, _types.ReloadReport)


def disconnect(server: Optional[str]) -> Operation[List[str]]:
    return Operation(_library.DISCONNECT, {"server": server}, _disconnected)


def close(grace: Optional[float]) -> Operation[None]:
    request = {"graceMs": None if grace is None else milliseconds(grace)}
    return Operation(_library.CLOSE, request, lambda reply: None)


def _disconnected(reply: bytes) -> List[str]:
    return list(_types._Reply(reply).data.get("disconnected") or [])


def _item(item: Any) -> _types.Json:
    return dict(item)

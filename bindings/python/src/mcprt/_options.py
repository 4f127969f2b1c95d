"""The options of a runtime: Python's names and units on this side, the C API's on the other.

Names are snake_case for the C API's camelCase, durations are seconds (int or float) for its ``...Ms``. A duration that
the C API switches off with 0 is switched off with ``math.inf`` here, since "0 seconds" reads as the opposite.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, TypedDict, Union

from ._json import encode

if TYPE_CHECKING:
    from typing_extensions import Literal

    Path = Union[str, "os.PathLike[str]"]


class DiscoveryOptions(TypedDict, total=False):
    project: bool
    user: Union[Literal["own", "all", "none"], List[str]]
    exclude: List[str]
    variables: Dict[str, str]
    files: Sequence[Path]
    filter_exa: bool
    filter_browser: bool


class CacheOptions(TypedDict, total=False):
    dir: Path
    ttl: float
    enabled: bool


class ToolNameOptions(TypedDict, total=False):
    prefix: str
    max_length: int


class LimitOptions(TypedDict, total=False):
    message_bytes: int
    pages: int
    tools: int
    config_bytes: int
    #: Calls that run at one server at once; 0 (default): no limit.
    calls_per_server: int


class ClientInfo(TypedDict, total=False):
    name: str
    version: str


class AuthOptions(TypedDict, total=False):
    store: Literal["auto", "keyring", "file", "memory"]
    dir: Path
    client_metadata_url: str
    redirect_uri: str
    redirect_port: int
    open_browser: Literal["host", "system", "never"]


class EnvPolicy(TypedDict):
    allow: List[str]


class SpillOptions(TypedDict, total=False):
    over_bytes: int
    dir: Path
    quota_bytes: int


class _TraceFile(TypedDict):
    file: Path


class TraceOptions(_TraceFile, total=False):
    """The flight recorder: every message and every step of each start, redacted, as JSON lines (docs/trace.md)."""

    #: Of one file, of which two are kept: 64 MiB.
    max_bytes: int
    #: Of one message's content: 4096; 0 keeps none.
    payload_bytes: int


class LogOptions(TypedDict, total=False):
    level: str


class GoRuntimeOptions(TypedDict, total=False):
    max_procs: int
    memory_limit: int
    gc_percent: int


class Options(TypedDict, total=False):
    """What ``Runtime`` and ``AsyncRuntime`` take as keywords. All are optional; durations are seconds."""

    #: The project directory. Default: the process's current one.
    cwd: Path
    #: The only environment that the library looks at. Default: ``os.environ`` at this moment.
    env: Mapping[str, str]
    #: Inline servers by name, in the form of the config files (camelCase); always trusted.
    servers: Mapping[str, Mapping[str, Any]]
    #: The start-up gate, 0.25 s; ``math.inf`` waits for every server.
    startup_timeout: float
    #: After the gate, whether a pending server without cached tools is awaited ("wait") or not.
    uncached: Literal["wait", "background"]
    #: "eager" returns as soon as every server is settled or covered by the cache.
    gate: Literal["timer", "eager"]
    #: Connect, and each request: 30 s; ``math.inf`` for no limit.
    timeout: float
    #: Ceiling where progress extends a call: 3600 s.
    max_timeout: float
    #: How long a request to the host may stay open: 300 s.
    request_timeout: float
    #: Stopping a stdio server: 2 s from closed stdin to SIGKILL.
    grace: float
    discovery: DiscoveryOptions
    #: Whether servers of the project's config may run: "recorded" (default) asks the trust records.
    project_trust: Literal["recorded", "always", "never"]
    cache: CacheOptions
    reconnect: Literal["auto", "onCall", "manual"]
    #: Start no server whose tools the cache knows.
    lazy: bool
    #: Stop a lazy server that had no call for so long. Default: never.
    idle_timeout: float
    max_concurrent_starts: int
    #: Operations not yet finished: 4096.
    max_in_flight: int
    queue_bytes: int
    max_notices: int
    notice_bytes: int
    tool_names: ToolNameOptions
    limits: LimitOptions
    #: Name and version shown to servers.
    client_info: ClientInfo
    #: How servers are signed in to.
    auth: AuthOptions
    #: What children get besides their own ``env``.
    env_policy: Union[Literal["inherit", "clear"], EnvPolicy]
    #: Have one session with a server together with the runtimes of this process whose config for it is equal.
    share: bool
    watch: Literal["off", "notify", "apply"]
    pinning: Literal["off", "report"]
    #: Ask the user's login shell for its ``PATH`` when a program is not in that of ``env``:
    #: for hosts that are started from a desktop.
    login_path: bool
    spill: Optional[SpillOptions]
    trace: Optional[TraceOptions]
    log: LogOptions
    #: For the Go runtime inside the library; honoured by the first runtime of a process.
    runtime: GoRuntimeOptions


def _number(seconds: float) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"a duration is a number of seconds, not {seconds!r}")


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, rounded up. Raises TypeError or ValueError for what is no duration."""
    _number(seconds)
    if not 0 <= seconds < math.inf:
        raise ValueError(f"a duration must be 0 seconds or more, and finite, not {seconds!r}")
    return math.ceil(seconds * 1000)


def limit(seconds: float) -> int:
    """As milliseconds, for a limit that can be switched off: ``math.inf`` gives the C API's 0."""
    _number(seconds)
    if seconds == math.inf:
        return 0
    if not seconds > 0:
        raise ValueError(f"a timeout must be more than 0 seconds, not {seconds!r}; math.inf means no limit")
    return milliseconds(seconds)


def _path(path: Path) -> str:
    return os.path.abspath(os.fspath(path))


def _paths(paths: Sequence[Path]) -> List[str]:
    return [_path(path) for path in paths]


def _env(env: Mapping[str, str]) -> Dict[str, str]:
    # Python keeps bytes that are not UTF-8 as lone surrogates, which JSON text cannot carry.
    return {_utf8(name): _utf8(value) for name, value in env.items()}


def _utf8(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _same(value: Any) -> Any:
    return value


class _Field:
    """The C API's name of an option, and how its value is put; ``inside`` lists the members of an object."""

    def __init__(self, name: str, put: Callable[[Any], Any] = _same, **inside: _Field) -> None:
        self.name = name
        self._put = put
        self._inside = inside

    def put(self, where: str, value: Any) -> Any:
        if self._inside and isinstance(value, Mapping):
            return _put_all(self._inside, value, where + ".")
        return self._put(value)


_FIELDS: Dict[str, _Field] = {
    "cwd": _Field("cwd", _path),
    "env": _Field("env", _env),
    "servers": _Field("servers"),
    "startup_timeout": _Field("startupTimeoutMs", limit),
    "uncached": _Field("uncached"),
    "gate": _Field("gate"),
    "timeout": _Field("timeoutMs", limit),
    "max_timeout": _Field("maxTimeoutMs", milliseconds),
    "request_timeout": _Field("requestTimeoutMs", milliseconds),
    "grace": _Field("graceMs", milliseconds),
    "discovery": _Field(
        "discovery",
        project=_Field("project"),
        user=_Field("user"),
        exclude=_Field("exclude"),
        variables=_Field("variables"),
        files=_Field("files", _paths),
        filter_exa=_Field("filterExa"),
        filter_browser=_Field("filterBrowser"),
    ),
    "project_trust": _Field("projectTrust"),
    "cache": _Field("cache", dir=_Field("dir", _path), ttl=_Field("ttlMs", milliseconds), enabled=_Field("enabled")),
    "reconnect": _Field("reconnect"),
    "lazy": _Field("lazy"),
    "idle_timeout": _Field("idleTimeoutMs", milliseconds),
    "max_concurrent_starts": _Field("maxConcurrentStarts"),
    "max_in_flight": _Field("maxInFlight"),
    "queue_bytes": _Field("queueBytes"),
    "max_notices": _Field("maxNotices"),
    "notice_bytes": _Field("noticeBytes"),
    "tool_names": _Field("toolNames", prefix=_Field("prefix"), max_length=_Field("maxLength")),
    "limits": _Field(
        "limits",
        message_bytes=_Field("messageBytes"),
        pages=_Field("pages"),
        tools=_Field("tools"),
        config_bytes=_Field("configBytes"),
        calls_per_server=_Field("callsPerServer"),
    ),
    "client_info": _Field("clientInfo"),
    "auth": _Field(
        "auth",
        store=_Field("store"),
        dir=_Field("dir", _path),
        client_metadata_url=_Field("clientMetadataUrl"),
        redirect_uri=_Field("redirectUri"),
        redirect_port=_Field("redirectPort"),
        open_browser=_Field("openBrowser"),
    ),
    "env_policy": _Field("envPolicy"),
    "share": _Field("share"),
    "watch": _Field("watch"),
    "pinning": _Field("pinning"),
    "login_path": _Field("loginPath"),
    "spill": _Field(
        "spill", over_bytes=_Field("overBytes"), dir=_Field("dir", _path), quota_bytes=_Field("quotaBytes")
    ),
    "trace": _Field("trace", file=_Field("file", _path), max_bytes=_Field("maxBytes"), payload_bytes=_Field("payloadBytes")),
    "log": _Field("log"),
    "runtime": _Field(
        "runtime",
        max_procs=_Field("maxProcs"),
        memory_limit=_Field("memoryLimit"),
        gc_percent=_Field("gcPercent"),
    ),
}


def _snake(name: str) -> str:
    """The C API's spelling of an option as Python's: ``timeoutMs`` is ``timeout`` here."""
    return re.sub("_ms$", "", re.sub("(?<!^)(?=[A-Z])", "_", name).lower())


def _put_all(fields: Mapping[str, _Field], values: Mapping[str, Any], where: str = "") -> Dict[str, Any]:
    put: Dict[str, Any] = {}
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            near = difflib.get_close_matches(_snake(name), fields, 1)
            hint = f"did you mean {where + near[0]!r}?" if near else f"known are: {', '.join(where + f for f in fields)}"
            raise TypeError(f"unknown option {where + name!r}; {hint}")
        put[field.name] = field.put(where + name, value)
    return put


def encode_options(
    keywords: Mapping[str, Any], raw: Optional[Mapping[str, Any]], answers: Sequence[str]
) -> bytes:
    """The JSON for ``mcprt_open``. ``raw`` has the C API's own names and wins over the keywords."""
    put = {"env": _env(os.environ), **_put_all(_FIELDS, keywords)}
    if answers:
        put["answers"] = list(answers)
    put.update(raw or {})
    return encode(put)

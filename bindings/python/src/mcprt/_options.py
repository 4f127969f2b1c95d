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

from ._arguments import mapping, names
from ._errors import InvalidRequestError
from ._json import encode

if TYPE_CHECKING:
    from typing_extensions import Literal

    Path = Union[str, "os.PathLike[str]"]


class DiscoveryOptions(TypedDict, total=False):
    """Which config files are read.

    - ``project``: those of the project, True by default.
    - ``user``: mcprt's own of the user ("own", the default), those of all tools, none, or those of the tools named.
    - ``exclude``: sources that are left out, by their ids in docs/config.md.
    - ``variables``: values for ``${NAME}`` in configs, which win over ``env``.
    - ``files``: files that the host names itself; their servers own a name before those of all other files.
    - ``filter_exa``, ``filter_browser``: leave out servers for a host that has a web search or a browser of its own.
    """

    project: bool
    user: Union[Literal["own", "all", "none"], List[str]]
    exclude: List[str]
    variables: Dict[str, str]
    files: Sequence[Path]
    filter_exa: bool
    filter_browser: bool


class CacheOptions(TypedDict, total=False):
    """The cache of tools.

    - ``dir``: its directory. Default: the user's cache directory + ``mcprt/tools``.
    - ``ttl``: seconds that an entry is good for: 30 days.
    - ``enabled``: True by default.
    """

    dir: Path
    ttl: float
    enabled: bool


class ToolNameOptions(TypedDict, total=False):
    """How tools are named.

    - ``prefix``: before each name: ``mcp_``.
    - ``max_length``: characters of a name: 64.
    """

    prefix: str
    max_length: int


class LimitOptions(TypedDict, total=False):
    """What a server or a file may cost.

    - ``message_bytes``: of one message: 64 MiB.
    - ``pages``: of one list: 1,000.
    - ``tools``: of one server: 50,000.
    - ``config_bytes``: of one config file: 64 MiB.
    - ``calls_per_server``: calls that run at one server at once; 0 (default): no limit.
    """

    message_bytes: int
    pages: int
    tools: int
    config_bytes: int
    calls_per_server: int


class ClientInfo(TypedDict, total=False):
    """How this program is called towards servers: ``name`` and ``version``. Default: mcprt's own."""

    name: str
    version: str


class AuthOptions(TypedDict, total=False):
    """How servers are signed in to (docs/auth.md).

    - ``store``: where sign-ins are kept. "auto", the default: the keyring, else files.
    - ``dir``: of the files. Default: the user's config directory + ``mcprt/auth``.
    - ``client_metadata_url``: a document that says who this program is, for authorization servers that read one.
    - ``redirect_uri``, ``redirect_port``: where the browser comes back to. Default: a free port of this machine.
    - ``open_browser``: who opens the page: the "authorization" handler ("host", the default), mcprt, or nobody.
    """

    store: Literal["auto", "keyring", "file", "memory"]
    dir: Path
    client_metadata_url: str
    redirect_uri: str
    redirect_port: int
    open_browser: Literal["host", "system", "never"]


class EnvPolicy(TypedDict):
    """``allow``: patterns with ``*`` and ``?``; only variables whose name matches one are given to servers."""

    allow: List[str]


class _SpillTarget(TypedDict):
    over_bytes: int
    dir: Path


class SpillOptions(_SpillTarget, total=False):
    """Long texts of results go to files, whose paths the result then names.

    - ``over_bytes``: a text longer than this goes to a file.
    - ``dir``: where a directory for this runtime is made.
    - ``quota_bytes``: of all files: 1 GiB; beyond it the oldest go.
    """

    quota_bytes: int


class _TraceFile(TypedDict):
    file: Path


class TraceOptions(_TraceFile, total=False):
    """The flight recorder: every message and every step of each start, redacted, as JSON lines (docs/trace.md).

    - ``file``: where to.
    - ``max_bytes``: of one file, of which two are kept: 64 MiB.
    - ``payload_bytes``: of one message's content: 4096; 0 keeps none.
    """

    max_bytes: int
    payload_bytes: int


class LogOptions(TypedDict, total=False):
    """``level``: the least of the library's own records that come as "log" events. Default: "warn"."""

    level: Literal["debug", "info", "warn", "error", "off"]


class GoRuntimeOptions(TypedDict, total=False):
    """For the Go runtime inside the library; honoured by the first runtime of a process.

    - ``max_procs``: threads that run Go code at once. Default: the processors that the process may use.
    - ``memory_limit``: bytes that its collector tries to stay below.
    - ``gc_percent``: growth of the heap after which it collects: 100.
    """

    max_procs: int
    memory_limit: int
    gc_percent: int


class Options(TypedDict, total=False):
    """What ``Runtime`` and ``AsyncRuntime`` take as keywords. All are optional; durations are seconds.

    - ``cwd``: the project directory. Default: the process's current one.
    - ``env``: the only environment that the library looks at. Default: ``os.environ`` at this moment.
    - ``servers``: inline servers by name, in the form of the config files (camelCase); always trusted.
    - ``startup_timeout``: the start-up gate, 0.25 s; ``math.inf`` waits for every server.
    - ``uncached``: after the gate, whether a pending server without cached tools is awaited ("wait", the default) or
      left in the "background".
    - ``gate``: "timer" (default), or "eager": return as soon as every server is settled or covered by the cache.
    - ``timeout``: for a start, and for each request: 30 s; ``math.inf`` for no limit.
    - ``max_timeout``: ceiling where progress extends a call: 3600 s.
    - ``request_timeout``: how long a request to the host may stay open: 300 s.
    - ``grace``: stopping a stdio server, from closed stdin to SIGKILL: 2 s.
    - ``discovery``: which config files are read, see :class:`DiscoveryOptions`.
    - ``project_trust``: whether servers of the project's files may run: "recorded" (default) asks the trust records,
      "always", or "never".
    - ``cache``: the cache of tools: ``dir``, ``ttl`` in seconds, ``enabled``.
    - ``reconnect``: a lost server is started again by itself ("auto", the default), with the next call ("onCall"), or
      only by the host ("manual").
    - ``lazy``: start no server whose tools the cache knows before a call needs it.
    - ``idle_timeout``: stop a lazy server that had no call for so many seconds. Default: never.
    - ``max_concurrent_starts``: processes that are being started at one moment: 16.
    - ``max_in_flight``: operations not yet finished: 4096.
    - ``queue_bytes``: bytes of operations and results that wait: 256 MiB.
    - ``max_notices``, ``notice_bytes``: events that wait: 4096, 16 MiB; more are dropped and counted.
    - ``tool_names``: how tools are named: ``prefix``, ``max_length``.
    - ``limits``: what a server or a file may cost: ``message_bytes``, ``pages``, ``tools``, ``config_bytes``,
      ``calls_per_server``.
    - ``client_info``: ``name`` and ``version`` shown to servers.
    - ``auth``: how servers are signed in to: ``store``, ``dir``, ``client_metadata_url``, ``redirect_uri``,
      ``redirect_port``, ``open_browser``.
    - ``env_policy``: what servers get besides their own ``env``: "inherit" (default), "clear", or ``{"allow": [...]}``.
    - ``share``: have one session with a server together with the runtimes of this process whose config for it is equal.
    - ``watch``: follow the config files: "off" (default), "notify" tells what changed, "apply" also reloads.
    - ``pinning``: "report" tells when the tools of a server are not those that were approved. Default: "off".
    - ``login_path``: ask the user's login shell for its ``PATH`` when a program is not in that of ``env``: for hosts
      that are started from a desktop.
    - ``spill``: put long texts of results into files: ``over_bytes``, ``dir``, ``quota_bytes``. Default: not.
    - ``trace``: the flight recorder: ``file``, ``max_bytes``, ``payload_bytes``. Default: off.
    - ``log``: the library's own records, as "log" events: ``level``.
    - ``runtime``: for the Go runtime: ``max_procs``, ``memory_limit``, ``gc_percent``.
    """

    cwd: Path
    env: Mapping[str, str]
    servers: Mapping[str, Mapping[str, Any]]
    startup_timeout: float
    uncached: Literal["wait", "background"]
    gate: Literal["timer", "eager"]
    timeout: float
    max_timeout: float
    request_timeout: float
    grace: float
    discovery: DiscoveryOptions
    project_trust: Literal["recorded", "always", "never"]
    cache: CacheOptions
    reconnect: Literal["auto", "onCall", "manual"]
    lazy: bool
    idle_timeout: float
    max_concurrent_starts: int
    max_in_flight: int
    queue_bytes: int
    max_notices: int
    notice_bytes: int
    tool_names: ToolNameOptions
    limits: LimitOptions
    client_info: ClientInfo
    auth: AuthOptions
    env_policy: Union[Literal["inherit", "clear"], EnvPolicy]
    share: bool
    watch: Literal["off", "notify", "apply"]
    pinning: Literal["off", "report"]
    login_path: bool
    spill: Optional[SpillOptions]
    trace: Optional[TraceOptions]
    log: LogOptions
    runtime: GoRuntimeOptions


def _number(seconds: Any) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise InvalidRequestError(f"a duration is a number of seconds, not {seconds!r}")


def duration(seconds: float) -> Optional[float]:
    """Seconds that something may take here, in Python; None for ``math.inf``."""
    _number(seconds)
    if not seconds >= 0:
        raise InvalidRequestError(f"a duration must be 0 seconds or more, not {seconds!r}")
    return None if seconds == math.inf else seconds


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, rounded up. Raises :class:`InvalidRequestError` for what is no duration."""
    _number(seconds)
    if not 0 <= seconds < math.inf:
        raise InvalidRequestError(f"a duration must be 0 seconds or more, and finite, not {seconds!r}")
    return math.ceil(seconds * 1000)


def limit(seconds: float) -> int:
    """As milliseconds, for a limit that can be switched off: ``math.inf`` gives the C API's 0."""
    _number(seconds)
    if seconds == math.inf:
        return 0
    if not seconds > 0:
        raise InvalidRequestError(f"a timeout must be more than 0 seconds, not {seconds!r}; math.inf means no limit")
    return milliseconds(seconds)


def path_of(path: Path) -> str:
    """Absolute. Raises :class:`InvalidRequestError` for what is no path."""
    try:
        text: Any = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise InvalidRequestError(f"a path is a string or an os.PathLike of one, not {path!r}")
    return os.path.abspath(text)


def _sent_path(path: Path) -> str:
    """As :func:`path_of`, for the library's options, which are JSON text and carry no other bytes."""
    text = path_of(path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequestError(f"a path must be UTF-8, which {text!r} is not") from None
    return text


def _paths(paths: Sequence[Path]) -> List[str]:
    return [_sent_path(path) for path in names("discovery.files", paths) or []]


def _env(env: Mapping[str, str]) -> Dict[str, str]:
    # Python keeps bytes that are not UTF-8 as lone surrogates, which JSON text cannot carry.
    return {_utf8(name): _utf8(value) for name, value in mapping("env", env).items()}


def _utf8(text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidRequestError(f"the names and values of env must be strings, not {text!r}")
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
            return _put_all(self._inside, mapping(where, value), where + ".")
        return self._put(value)


_FIELDS: Dict[str, _Field] = {
    "cwd": _Field("cwd", _sent_path),
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
    "cache": _Field("cache", dir=_Field("dir", _sent_path), ttl=_Field("ttlMs", milliseconds), enabled=_Field("enabled")),
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
        dir=_Field("dir", _sent_path),
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
        "spill", over_bytes=_Field("overBytes"), dir=_Field("dir", _sent_path), quota_bytes=_Field("quotaBytes")
    ),
    "trace": _Field("trace", file=_Field("file", _sent_path), max_bytes=_Field("maxBytes"), payload_bytes=_Field("payloadBytes")),
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
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"the name of an option is a string, not {name!r}")
        field = fields.get(name)
        if field is None:
            near = difflib.get_close_matches(_snake(name), fields, 1)
            hint = f"did you mean {where + near[0]!r}?" if near else f"known are: {', '.join(where + f for f in fields)}"
            raise InvalidRequestError(f"unknown option {where + name!r}; {hint}")
        put[field.name] = field.put(where + name, value)
    return put


def encode_options(
    keywords: Mapping[str, Any], raw: Optional[Mapping[str, Any]], answers: Sequence[str]
) -> bytes:
    """The JSON for ``mcprt_open``. ``raw`` has the C API's own names and wins over the keywords."""
    put = {"env": _env(os.environ), **_put_all(_FIELDS, keywords)}
    if answers:
        put["answers"] = list(answers)
    put.update(mapping("options", raw))
    return encode(put)

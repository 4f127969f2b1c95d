"""What both of mcprt's Python drivers say to it."""
import os


def options(specs):
    cache = os.environ.get("BENCH_CACHE")
    return {
        "servers": {s.name: {"type": "http", "url": s.url} if s.url else {"command": s.command, "args": s.args} for s in specs},
        "discovery": {"project": False, "user": "none"},
        "tool_names": {"prefix": ""},
        "cache": {"enabled": True, "dir": cache} if cache else {"enabled": False},
    }


def ready_from(report, specs, ready):
    """Each server's tools, decoded, are in the host's hands."""
    counts = {}
    for tool in report.tools:
        counts[tool.server] = counts.get(tool.server, 0) + 1
    for i, s in enumerate(specs):
        ready(i, counts[s.name])

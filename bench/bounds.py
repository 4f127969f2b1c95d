"""The bounds that a run is held against, as ratios of medians within it.

Each is (workload, metric, client, "<=" or ">=", [(factor, rival)], offset): the client's median
against factor times the best median of the rivals, plus an offset. A bound with several pairs
holds against each.
"""
import statistics

GO = ["mcp-go", "go-sdk"]
PYTHON = ["py-mcp", "py-mcpgroup", "py-fastmcp"]
NODE = ["ts-sdk1", "ts-sdk2", "mcporter"]
PEERS = [*GO, *NODE, "ts-sdk1-bun", "omp-bun", *PYTHON]
C, PY, AIO, JS = ["mcprt-c"], ["mcprt-py"], ["mcprt-aio"], ["mcprt-node"]
FLOOR, PYFLOOR = ["gofloor"], ["pyfloor"]
MB = 1024  # rss_kb


def upto(title, w, metric, ours, *rivals, plus=0):
    return (title, w, metric, ours, "<=", rivals, plus)


def atleast(title, w, metric, ours, *rivals):
    return (title, w, metric, ours, ">=", rivals, 0)


BOUNDS = [
    upto("W1 50 servers, time to tools", "W1x50", "ttt_ms", C, (1.5, FLOOR), (0.65, PEERS)),
    upto("W1 50 servers, time to tools", "W1x50", "ttt_ms", AIO, (0.9, PEERS)),
    upto("W1 50 servers, time to tools", "W1x50", "ttt_ms", JS, (0.9, PEERS)),
    upto("W1 from exec, 10 servers", "W1x10", "from_exec_ms", C, (0.8, PEERS)),
    upto("W1 from exec, 10 servers", "W1x10", "from_exec_ms", PY, (0.5, PYTHON)),
    upto("W1 from exec, 10 servers", "W1x10", "from_exec_ms", AIO, (0.5, PYTHON)),
    upto("W1 from exec, 10 servers", "W1x10", "from_exec_ms", JS, (0.5, NODE)),
    upto("warm start of 50 servers, ms", "warm", "ttt_ms", C, plus=10),
    upto("warm start of 50 servers, ms", "warm", "ttt_ms", PY, plus=20),
    upto("warm start of 50 servers, ms", "warm", "ttt_ms", AIO, plus=20),
    upto("warm start of 50 servers, ms", "warm", "ttt_ms", JS, plus=20),
    upto("W2 one at a time, p50", "W2", "p50_us", C, (1.25, FLOOR)),
    upto("W2 one at a time, p50", "W2", "p50_us", PY, (0.55, PYFLOOR)),
    upto("W2 one at a time, p50", "W2", "p50_us", AIO, (0.55, PYFLOOR)),
    upto("W2 one at a time, p50", "W2", "p50_us", JS, (0.8, NODE)),
    atleast("W3 64 in flight, calls/s", "W3", "calls_s", C, (0.8, FLOOR)),
    atleast("W3 64 in flight, calls/s", "W3", "calls_s", AIO, (1.2, PYFLOOR)),
    atleast("W3 64 in flight, calls/s", "W3", "calls_s", JS, (1.5, PEERS)),
    upto("W4 10 MB, p50", "W4", "p50_us", C, (1.2, FLOOR)),
    upto("W4 10 MB, p50", "W4", "p50_us", PY, (1.1, PYFLOOR)),
    upto("W4 10 MB, p50", "W4", "p50_us", AIO, (1.1, PYFLOOR)),
    upto("W4 10 MB, p50", "W4", "p50_us", JS, (0.5, NODE)),
    upto("W4 10 MB, RSS", "W4", "rss_kb", C, (1, FLOOR)),
    upto("W4 10 MB, RSS", "W4", "rss_kb", PY, (1.1, PYFLOOR)),
    upto("W4 10 MB, RSS", "W4", "rss_kb", AIO, (1.1, PYFLOOR)),
    upto("W4 10 MB, RSS", "W4", "rss_kb", JS, (0.5, NODE)),
    upto("W5 5,000 tools, p50", "W5", "p50_us", C, (2, FLOOR)),
    upto("W5 5,000 tools, p50", "W5", "p50_us", PY, (1.1, PYFLOOR)),
    upto("W5 5,000 tools, p50", "W5", "p50_us", AIO, (1.1, PYFLOOR)),
    upto("W5 5,000 tools, p50", "W5", "p50_us", JS, (0.8, NODE)),
    upto("W6 RSS, 50 servers", "W1x50", "rss_kb", C, plus=16 * MB),
    upto("W6 RSS, 50 servers", "W1x50", "rss_kb", PY, (1, ["py-base"]), plus=14 * MB),
    upto("W6 RSS, 50 servers", "W1x50", "rss_kb", AIO, (1, ["py-base"]), plus=14 * MB),
    upto("W6 RSS, 50 servers", "W1x50", "rss_kb", JS, (1, ["node-base"]), plus=14 * MB),
    upto("W6 CPU of 10,000 calls, 64 in flight", "W3", "cpu_s_10k", C, (1.5, FLOOR)),
    upto("W6 CPU of 10,000 calls, 64 in flight", "W3", "cpu_s_10k", AIO, (1, PYFLOOR)),
    upto("W6 CPU of 10,000 calls, 64 in flight", "W3", "cpu_s_10k", JS, (0.8, NODE)),
    upto("W7 HTTP, JSON answers, p50", "W7", "p50_us", C, (0.6, GO)),
    upto("W7 HTTP, JSON answers, p50", "W7", "p50_us", PY, (0.8, GO)),
    upto("W7 HTTP, JSON answers, p50", "W7", "p50_us", AIO, (0.8, GO)),
    upto("W7 HTTP, JSON answers, p50", "W7", "p50_us", JS, (0.3, NODE)),
    upto("W7 HTTP, SSE answers, p50", "W7sse", "p50_us", C, (0.6, GO)),
    upto("W7 HTTP, SSE answers, p50", "W7sse", "p50_us", PY, (0.8, GO)),
    upto("W7 HTTP, SSE answers, p50", "W7sse", "p50_us", AIO, (0.8, GO)),
    upto("W7 HTTP, SSE answers, p50", "W7sse", "p50_us", JS, (0.3, NODE)),
    upto("load and open, ms", "open", "open_ms", C, plus=5),
    upto("load and open, RSS added", "open", "rss_added_kb", C, plus=10 * MB),
]

# Not bounds, but what is aimed at.
AIMS = [
    upto("W2 one at a time, p50", "W2", "p50_us", JS, (1.1, PEERS)),
    upto("W2 one at a time, p50", "W2", "p50_us", PY, (1.3, PEERS)),
    upto("W2 one at a time, p50", "W2", "p50_us", AIO, (1.3, PEERS)),
    atleast("W3 64 in flight, calls/s", "W3", "calls_s", AIO, (1, PEERS)),
    upto("W7 HTTP, JSON answers, p50", "W7", "p50_us", C, (1, ["omp-bun"])),
]

LIBRARY_MB = 12  # of 10^6 bytes, stripped


def check(got, comps):
    """Prints each bound with what was measured; 1 when one is missed or could not be measured."""

    def median(w, metric, client):
        samples = got.get("base" if comps.get(client, {}).get("role") == "base" else w, {}).get(client)
        return statistics.median(s[metric] for s in samples) if samples else None

    failed = 0

    def line(bound, count):
        nonlocal failed
        title, w, metric, (ours,), sign, rivals, plus = bound
        mine = median(w, metric, ours)
        for factor, names in rivals or [(0, [])]:
            absent = [n for n in names if median(w, metric, n) is None and not (n == "omp-bun" and w.startswith("none"))]
            values = {n: median(w, metric, n) for n in names if n not in absent}
            if mine is None or absent:
                print(f"ABSENT {title}: {ours}: no figure of {', '.join(absent) or ours}")
                failed += count
                continue
            rival = (min if sign == "<=" else max)(values, key=values.get) if values else None
            limit = factor * values[rival] + plus if rival else plus
            good = mine <= limit if sign == "<=" else mine >= limit
            against = f"{factor} x {rival} ({values[rival]:.4g})" + (f" + {plus}" if plus else "") if rival else ""
            ratio = f", {mine / values[rival]:.2f} of it" if rival else ""
            print(f"{'ok    ' if good else 'MISSED' if count else 'short '} {title}: {ours} {mine:.4g} {sign} {limit:.4g} {against}{ratio}")
            failed += count and not good

    for bound in BOUNDS:
        line(bound, 1)
    print("\nAims, which are no bounds:")
    for bound in AIMS:
        line(bound, 0)
    import os

    path = comps["mcprt-c"]["args"][1]
    size = os.path.getsize(path) / 1e6
    print(f"\n{'ok    ' if size <= LIBRARY_MB else 'MISSED'} size of the library: {size:.1f} MB <= {LIBRARY_MB} MB")
    failed += size > LIBRARY_MB
    print(f"\n{failed} missed" if failed else "\nall bounds hold")
    return 1 if failed else 0

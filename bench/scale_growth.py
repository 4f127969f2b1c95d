"""What bench-scale prints: each curve, and one number that says how it grows.

A curve per server is a straight line when one more server costs the same at any size. The first
servers share what the library and its runtime cost, so that "total through number" would fall for
ever and hide a bend: what is compared is what each further server adds. A curve per call is flat when its last point is as high as its
second (the first has one server or one call, where nothing overlaps); the exponent is that of a
power law fitted to all points but the first: 0 is flat, 1 is in proportion.
"""
import json
import math
import statistics
import sys

# (title, metric, scale, unit)
SERVER_CURVES = [
    ("time to tools", "ttt_ms", 1, "ms"),
    ("client CPU", "cpu_ms", 1, "ms"),
    ("client peak RSS", "rss_kb", 1 / 1024, "MB"),
]
CALL_CURVES = [
    ("client CPU per 10,000 calls", "cpu_s_10k", 1, "s"),
    ("calls/s", "calls_s", 1e-3, "k/s"),
    ("p50", "p50_us", 1, "us"),
    ("p99", "p99_us", 1, "us"),
]


def read(out):
    """The good samples: {(kind, client, servers, in flight): [metrics]}."""
    got = {}
    for line in open(out):
        r = json.loads(line)
        if "error" in r["m"]:
            print(f"error: {r['c']}, {r['n']} servers, {r['inflight']} in flight: {r['m']['error'][:200]}", file=sys.stderr)
            continue
        got.setdefault((r["w"], r["c"], r["n"], r["inflight"]), []).append(r["m"])
    return got


def values(got, kind, place):
    """The different clients (1), numbers of servers (2) or of calls in flight (3), in order; clients as they were measured."""
    found = list(dict.fromkeys(key[place] for key in got if key[0] == kind))
    return sorted(found, key=lambda c: c != "mcprt-c") if place == 1 else sorted(found)


def curve(got, keys, metric, scale):
    """{x: (median, min, max)} of those keys, given by x, that were measured."""
    out = {}
    for x, key in keys.items():
        v = [m[metric] * scale for m in got.get(key, []) if metric in m]
        if v:
            out[x] = (statistics.median(v), min(v), max(v))
    return out


def exponent(points):
    """The slope of the line through the logarithms of (x, y)."""
    if len(points) < 2:
        return math.nan
    x, y = [math.log(p[0]) for p in points], [math.log(p[1]) for p in points]
    return statistics.linear_regression(x, y).slope


def cell(c):
    if isinstance(c, str):
        return c
    if c is None or math.isnan(c):
        return "–"
    return f"{c:.3g}" if c < 1000 else f"{c:,.0f}"


def row(*cells):
    print("| " + " | ".join(map(cell, cells)) + " |")


def header(title, *cells):
    print(f"\n### {title}\n")
    row(*cells)
    print("|" + " --- |" * len(cells))


def report_servers(got):
    sizes = values(got, "servers", 2)
    if len(sizes) < 3:
        return
    a, b, c = sizes[-3:]
    header("Cost per server", "curve", "client", *map(str, sizes), f"each, {a} to {b}", f"each, {b} to {c}", "growth (1 is linear)")
    for title, metric, scale, unit in SERVER_CURVES:
        for client in values(got, "servers", 1):
            m = {x: v[0] for x, v in curve(got, {n: ("servers", client, n, 0) for n in sizes}, metric, scale).items()}
            if not {a, b, c} <= m.keys():
                continue
            first, last = (m[b] - m[a]) / (b - a), (m[c] - m[b]) / (c - b)
            row(f"{title}, {unit}", client, *(m.get(n) for n in sizes), first, last, last / first if first else math.nan)


def report_calls(got, title, across, place):
    """One table of calls along one of servers (2) and calls in flight (3), a row for each value of the other."""
    xs, others = values(got, "calls", place), values(got, "calls", 5 - place)
    if len(xs) < 2:
        return
    base, last = xs[-2 if len(xs) == 2 else 1], xs[-1]
    header(title, "curve", across, "client", *map(str, xs), f"{last} over {base}", "exponent (0 is flat)")
    for name, metric, scale, unit in CALL_CURVES:
        for other in others:
            for client in values(got, "calls", 1):
                keys = {x: ("calls", client, *((x, other) if place == 2 else (other, x))) for x in xs}
                m = {x: v[0] for x, v in curve(got, keys, metric, scale).items()}
                if base in m and last in m:
                    slope = exponent([(x, y) for x, y in m.items() if x >= base])
                    row(f"{name}, {unit}", str(other), client, *(m.get(x) for x in xs), m[last] / m[base], slope)


def report(got):
    report_servers(got)
    report_calls(got, "Cost per call against servers", "in flight", 2)
    report_calls(got, "Cost per call against calls in flight", "servers", 3)
    print("\nAt the same calls/s p50 and p99 grow with the number in flight: a call waits for those before it.")

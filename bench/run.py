#!/usr/bin/env python3
"""Runs the workloads, interleaving the competitors, and prints the tables.

    run.py [--build DIR] [--out results.jsonl] [--rounds 9] [--workloads W2,W3]
           [--competitors raw,mcp-go] [--report] [--check] [--summary]

Every sample is one fresh client process. Within a round each workload visits
all competitors in a random order, so a noisy minute hits them alike. Samples
are appended to --out; --report only prints the tables of what is there, --check holds it against
bounds.py and exits with 1 where one is missed or a client that it names is absent, --summary prints one table.
"""
import argparse
import json
import os
import random
import statistics
import shutil
import subprocess
import sys
import tempfile
import time

import bounds

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
KB = 1024
# name: (arguments, HTTP server flags or None, rounds share)
WORKLOADS = {
    "W1x1": (["ttt", "--n", "1"], None, 1),
    "W1x10": (["ttt", "--n", "10"], None, 1),
    "W1x50": (["ttt", "--n", "50"], None, 1),
    "W1mix": (["ttt", "--n", "10", "--slow", "2", "--slow-ms", "3000"], None, 0.4),
    "W2": (["calls", "--calls", "5000", "--warmup", "1000", "--result-bytes", str(KB)], None, 1),
    "W3": (["calls", "--inflight", "64", "--calls", "10000", "--warmup", "1000", "--result-bytes", str(KB)], None, 1),
    "W3x10": (["calls", "--n", "10", "--inflight", "8", "--calls", "10000", "--warmup", "1000", "--result-bytes", str(KB)], None, 1),
    # Not 10 MiB: the TypeScript SDK drops the connection at that size.
    "W4": (["calls", "--calls", "5", "--warmup", "1", "--result-bytes", "10000000"], None, 1),
    "W5": (["list", "--tools", "5000", "--calls", "5", "--warmup", "1"], None, 1),
    # A second start: the cache knows all tools, the gate is eager. Only of clients that have a cache.
    "warm": (["ttt", "--n", "50", "--tools", "20"], None, 1),
    "open": (["open"], None, 1),  # what loading and opening the library costs
    "base": ([], None, 1),  # what the language takes with nothing done
    "W7": (["calls", "--calls", "2000", "--warmup", "500"], ["--result-bytes", str(KB)], 1),
    "W7sse": (["calls", "--calls", "2000", "--warmup", "500"], ["--result-bytes", str(KB), "--sse"], 0.6),
}
# table: (title, workload, metric, scale, unit, higher is better)
TABLES = [
    ("W1 time to tools, 1 server", "W1x1", "ttt_ms", 1, "ms", False),
    ("W1 time to tools, 10 servers", "W1x10", "ttt_ms", 1, "ms", False),
    ("W1 time to tools, 50 servers", "W1x50", "ttt_ms", 1, "ms", False),
    ("W1 the same from exec of the client process, 10 servers", "W1x10", "from_exec_ms", 1, "ms", False),
    ("W1 mix (2 of 10 servers boot in 3 s): the fast 8", "W1mix", "ttt_fast_ms", 1, "ms", False),
    ("W1 mix: all 10", "W1mix", "ttt_ms", 1, "ms", False),
    ("Warm start, eager gate, 50 servers of 20 tools: from open to the list", "warm", "ttt_ms", 1, "ms", False),
    ("Loading and opening the library", "open", "open_ms", 1, "ms", False),
    ("RSS that loading and opening adds", "open", "rss_added_kb", 1 / 1024, "MB", False),
    ("RSS of a language alone", "base", "rss_kb", 1 / 1024, "MB", False),
    ("W1 client CPU for 50 servers", "W1x50", "cpu_ms", 1, "ms", False),
    ("W2 sequential call, 1 KB result: p50", "W2", "p50_us", 1, "us", False),
    ("W2 p99", "W2", "p99_us", 1, "us", False),
    ("W2 calls/s", "W2", "calls_s", 1e-3, "k/s", True),
    ("W3 64 in flight on 1 server: calls/s", "W3", "calls_s", 1e-3, "k/s", True),
    ("W3 8 in flight on each of 10 servers: calls/s", "W3x10", "calls_s", 1e-3, "k/s", True),
    ("W3 64 in flight: p99", "W3", "p99_us", 1e-3, "ms", False),
    ("W4 10 MB result: p50", "W4", "p50_us", 1e-3, "ms", False),
    ("W4 peak RSS", "W4", "rss_kb", 1 / 1024, "MB", False),
    ("W5 tools/list of 5,000 tools: p50", "W5", "p50_us", 1e-3, "ms", False),
    ("W5 peak RSS", "W5", "rss_kb", 1 / 1024, "MB", False),
    ("W6 peak RSS, 10 servers", "W1x10", "rss_kb", 1 / 1024, "MB", False),
    ("W6 peak RSS, 50 servers", "W1x50", "rss_kb", 1 / 1024, "MB", False),
    ("W6 client CPU per 10,000 sequential calls", "W2", "cpu_s_10k", 1, "s", False),
    ("W6 client CPU per 10,000 calls, 64 in flight", "W3", "cpu_s_10k", 1, "s", False),
    ("W7 streamable HTTP (JSON answers), 1 KB: p50", "W7", "p50_us", 1, "us", False),
    ("W7 p99", "W7", "p99_us", 1, "us", False),
    ("W7 client CPU per 10,000 calls", "W7", "cpu_s_10k", 1, "s", False),
    ("W7 streamable HTTP (SSE answers), 1 KB: p50", "W7sse", "p50_us", 1, "us", False),
]


def load_competitors(build, names=None):
    """All competitors by name, or those named; one with a missing part is there, and marked absent."""
    places = {"build": build, "harness": HERE, "root": ROOT, "python": f"{build}/venv/bin/python", "lib": os.environ.get("MCPRT_LIBRARY", f"{ROOT}/build/libmcprt.so.0")}
    text = open(os.path.join(HERE, "competitors.json")).read()
    for name, path in places.items():
        text = text.replace("{%s}" % name, path)
    comps = {name: c for name, c in json.loads(text).items() if names is None or name in names}
    for name, c in comps.items():
        missing = [p for p in [c.get("needs"), *c["cmd"], *c.get("args", [])] if p and p.startswith("/") and not os.path.exists(p)]
        if missing or not shutil.which(c["cmd"][0]):
            print(f"skip {name}: no {(missing or c['cmd'])[0]}", file=sys.stderr)
            c["absent"] = True
    return comps


def runs(c, w):
    if w == "base":
        return not c.get("absent") and c["role"] == "base"
    if w in ("warm", "open") and c["role"] != "ours":
        return False
    return not c.get("absent") and w in c.get("only", [w]) and w not in c.get("not", [])


def run(cmd, env):
    env = {**env, "BENCH_T0_NS": str(time.time_ns())}
    try:
        p = subprocess.run(cmd, env=env, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        return {"error": "timeout"}
    if p.returncode == 0:
        return json.loads(p.stdout.strip().splitlines()[-1])
    return {"error": p.stderr.strip()[-300:] or f"status {p.returncode}"}


def sample(build, c, w):
    args, http, _ = WORKLOADS[w]
    cmd = [*c["cmd"], *args]
    if w != "base":
        cmd += ["--server", f"{build}/mockserver", *c.get("args", [])]
    env, srv, cache = {**os.environ, **c.get("env", {})}, None, None
    if http is not None:
        srv = subprocess.Popen([f"{build}/mockserver", "--http", "0", *http], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cmd += ["--url", f"http://127.0.0.1:{srv.stdout.readline().split()[1].decode()}/mcp"]
    try:
        if w == "warm":
            cache = tempfile.mkdtemp(prefix="mcprt-bench-")
            env["BENCH_CACHE"] = cache
            first = run(cmd, env)  # fills the cache
            if "error" in first:
                return first
        return run(cmd, env)
    finally:
        if srv:
            srv.stdin.close()
            srv.wait()
        if cache:
            shutil.rmtree(cache, ignore_errors=True)


def read(out):
    """The good samples: {workload: {competitor: [metrics]}}."""
    got = {}
    for line in open(out):
        r = json.loads(line)
        if "error" in r["m"]:
            print(f"error: {r['w']} {r['c']}: {r['m']['error'][:200]}", file=sys.stderr)
            continue
        got.setdefault(r["w"], {}).setdefault(r["c"], []).append(r["m"])
    return got


def report(out, comps):
    got = read(out)
    for title, w, metric, scale, unit, up in TABLES:
        rows = {c: sorted(m[metric] * scale for m in ms if metric in m) for c, ms in got.get(w, {}).items()}
        rows = {c: v for c, v in rows.items() if v}
        if not rows:
            continue
        med = {c: statistics.median(v) for c, v in rows.items()}
        raw = med.get("raw")
        peers = {c: x for c, x in med.items() if comps.get(c, {}).get("role") == "peer"}
        best = (max if up else min)(peers, key=peers.get) if peers else None
        print(f"\n### {title} ({unit})\n\n| client | role | median | min | max | n | x raw | x best peer |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
        for c in sorted(med, key=med.get, reverse=up):
            ratio = lambda base: "" if not base or not med[c] else f"{(base / med[c] if up else med[c] / base):.2f}"
            v = rows[c]
            print(f"| {c} | {comps.get(c, {}).get('role', '?')} | {med[c]:.4g} | {v[0]:.4g} | {v[-1]:.4g} | {len(v)} | {ratio(raw)} | {ratio(med[best]) if best else ''} |")


# Of the summary.
COLUMNS = ["raw", "gofloor", "pyfloor", "mcprt-c", "mcprt-py", "mcprt-aio", "mcprt-node", "mcp-go", "go-sdk", "ts-sdk1", "ts-sdk2", "mcporter", "ts-sdk1-bun", "omp-bun", "py-mcp", "py-mcpgroup", "py-fastmcp"]


def summary(out):
    """One table of all medians, for docs/benchmarks.md."""
    got = read(out)
    print("| | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
    for title, w, metric, scale, unit, _ in TABLES:
        cells = []
        for c in COLUMNS:
            values = [m[metric] * scale for m in got.get(w, {}).get(c, []) if metric in m]
            cells.append(f"{statistics.median(values):.3g}" if values else "–")
        if any(cell != "–" for cell in cells):
            print(f"| {title}, {unit} | " + " | ".join(cells) + " |")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--build", default=os.path.join(ROOT, "build", "bench"))
    a.add_argument("--out", default="results.jsonl")
    a.add_argument("--rounds", type=int, default=9)
    a.add_argument("--workloads", default=",".join(WORKLOADS))
    a.add_argument("--competitors", default="")
    a.add_argument("--report", action="store_true")
    a.add_argument("--check", action="store_true")
    a.add_argument("--summary", action="store_true")
    o = a.parse_args()
    o.build = os.path.abspath(o.build)
    comps = load_competitors(o.build)
    if o.summary:
        return summary(o.out)
    if not o.report and not o.check:
        names = o.competitors.split(",") if o.competitors else list(comps)
        with open(o.out, "a") as f:
            for r in range(o.rounds):
                for w in o.workloads.split(","):
                    if r and int(r * WORKLOADS[w][2]) == int((r - 1) * WORKLOADS[w][2]):
                        continue
                    order = [c for c in names if runs(comps[c], w)]
                    random.shuffle(order)
                    for c in order:
                        load = os.getloadavg()[0]
                        f.write(json.dumps({"r": r, "w": w, "c": c, "load": load, "m": sample(o.build, comps[c], w)}) + "\n")
                        f.flush()
                print(f"round {r + 1}/{o.rounds} done, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    if o.check:
        return bounds.check(read(o.out), comps)
    report(o.out, comps)


if __name__ == "__main__":
    sys.exit(main())

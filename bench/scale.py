#!/usr/bin/env python3
"""Measures how the cost of a call and of a server grows, prints the growth and draws it.

    scale.py [--out build/bench/scale.jsonl] [--img docs/img] [--rounds 5] [--draw]
             [--servers 1,10,100,500] [--inflight 1,64,1000] [--calls 10000] [--competitors mcprt-c,gofloor]

As in run.py every sample is one fresh client process, and a round visits all points in a random
order. --draw measures nothing: it prints and draws what --out holds.
"""
import argparse
import ctypes
import json
import os
import random
import sys
import time

import run
import scale_growth
import scale_plots

TOOLS = "4"  # of each server: few, so that the server is what costs
RESULT_BYTES = "1024"
WARMUP = "2000"  # four calls at each of 500 servers: the first ones make buffers


def adopt_orphans():
    """Makes the servers that a client leaves behind children of this process (PR_SET_CHILD_SUBREAPER)."""
    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def wait_for_orphans(seconds=20):
    """500 servers that still end would cost the next sample, not the one that they belong to."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return
    raise SystemExit(f"servers of the last sample still run after {seconds} s; end them, then measure again")


def points(o):
    """What is measured of each client: (kind, servers, calls in flight, arguments of the driver)."""
    calls = ["calls", "--calls", str(o.calls), "--warmup", WARMUP, "--result-bytes", RESULT_BYTES]
    for n in o.servers:
        yield "servers", n, 0, ["ttt", "--n", str(n)]
        for inflight in o.inflight:
            yield "calls", n, inflight, [*calls, "--n", str(n), "--window", str(inflight)]


def measure(o):
    comps = run.load_competitors(o.build, o.competitors)
    absent = [name for name in o.competitors if comps.get(name, {"absent": True}).get("absent")]
    if absent:
        raise SystemExit(f"cannot measure {', '.join(absent)}: build it first (make bench-scale)")
    adopt_orphans()
    with open(o.out, "w") as f:
        for r in range(o.rounds):
            todo = [(c, *p) for c in o.competitors for p in points(o)]
            random.shuffle(todo)
            for c, kind, n, inflight, args in todo:
                load = os.getloadavg()[0]
                cmd = [*comps[c]["cmd"], *args, "--tools", TOOLS, "--server", f"{o.build}/mockserver", *comps[c].get("args", [])]
                m = run.run(cmd, {**os.environ, **comps[c].get("env", {})})
                wait_for_orphans()
                f.write(json.dumps({"r": r, "w": kind, "c": c, "n": n, "inflight": inflight, "load": load, "m": m}) + "\n")
                f.flush()
            print(f"round {r + 1}/{o.rounds} done, load {os.getloadavg()[0]:.1f}", file=sys.stderr)


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--build", type=os.path.abspath, default=os.path.join(run.ROOT, "build", "bench"))
    a.add_argument("--out", default=os.path.join(run.ROOT, "build", "bench", "scale.jsonl"))
    a.add_argument("--img", default=os.path.join(run.ROOT, "docs", "img"))
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--servers", type=numbers, default=[1, 10, 100, 500])
    a.add_argument("--inflight", type=numbers, default=[1, 64, 1000])
    a.add_argument("--calls", type=int, default=10000)
    a.add_argument("--competitors", type=lambda text: text.split(","), default=["mcprt-c", "gofloor"])
    a.add_argument("--draw", action="store_true")
    o = a.parse_args()
    if not o.draw:
        measure(o)
    got = scale_growth.read(o.out)
    scale_growth.report(got)
    scale_plots.draw(got, o.img)


if __name__ == "__main__":
    main()

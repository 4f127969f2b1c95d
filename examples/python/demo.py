"""The main job of mcprt, in Python: discover the servers of the project in the current
directory, connect them, look at the tools, call one, reload."""

import itertools
import json
import os
import sys
import threading
import time
from contextlib import contextmanager

import mcprt

COLORED = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(code, text):
    return f"\x1b[{code}m{text}\x1b[0m" if COLORED else str(text)


def bold(text):
    return paint(1, text)


def faint(text):
    return paint(2, text)


def red(text):
    return paint(31, text)


def green(text):
    return paint(32, text)


def yellow(text):
    return paint(33, text)


def clean(text):
    """What servers say is shown on a terminal, so it must not steer it."""
    return "".join(c if c.isprintable() else " " for c in text)


def row(title, text):
    print(f"  {bold(title.ljust(9))} {text}", flush=True)


@contextmanager
def waiting(doing):
    """Shows on a terminal that something is waited for."""
    done = threading.Event()

    def turn():
        for frame in itertools.cycle("|/-\\"):
            if done.wait(0.1):
                break
            print(f"\r\x1b[K  {frame} {doing}", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=turn)
    if sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


def call(rt, name, arguments):
    start = time.monotonic()
    with waiting(f"calling {name}"):
        result = rt.call(name, arguments)
    took = round((time.monotonic() - start) * 1000)
    shown = json.dumps(arguments, separators=(",", ":"))
    row("call", f"{name} {faint(shown)} -> {clean(result.text)}  {faint(f'{took} ms')}")


def main():
    with mcprt.Runtime(project_trust="always") as rt:
        with waiting("reading config files"):
            found = rt.discover()
        row("discover", f"{len(found.servers)} servers")
        for server in found.servers:
            config = server["config"]
            command = " ".join([os.path.basename(config["command"]), *config.get("args", [])])
            row("", clean(server["name"]).ljust(8) + faint(clean(command)))

        with waiting("connecting"):
            report = rt.connect()
        row("connect", f"{round(report.elapsed_seconds * 1000)} ms")
        deferred = sum(tool.deferred for tool in report.tools)
        row("tools", f"{green(f'{len(report.tools) - deferred} live')}, {yellow(f'{deferred} deferred')}")
        for server, tools in itertools.groupby(report.tools, key=lambda tool: tool.server):
            own = list(tools)
            state = yellow("deferred ") if own[0].deferred else green("live     ")
            row("", clean(server).ljust(8) + state + " " + clean(" ".join(tool.tool for tool in own)))
        for name, error in report.errors.items():
            row(clean(name), red(clean(str(error))))

        call(rt, "mcp_demo_add", {"a": 2, "b": 40})
        call(rt, "mcp_slow_echo", {"text": "worth the wait"})

        # Somebody edits the config: the broken server is mended.
        os.rename("next.mcp.json", ".mcp.json")
        with waiting("reloading"):
            changes = rt.reload(tools=False).changes
        kinds = {"kept": changes.kept, "changed": changes.changed, "added": changes.added, "removed": changes.removed}
        row("reload", ", ".join(f"{bold(kind)} {clean(' '.join(names))}" for kind, names in kinds.items() if names))


if __name__ == "__main__":
    main()

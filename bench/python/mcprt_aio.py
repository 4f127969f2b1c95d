"""mcprt's AsyncRuntime."""
import math
import os

from bench import main
from mcprt_options import options, ready_from
import mcprt


class Pool:
    def __init__(self, rt):
        self.rt = rt

    async def list(self, i):
        return len([tool.input_schema for tool in await self.rt.list(server=f"s{i}", refresh=True)])

    async def call(self, i, tool, args):
        return len((await self.rt.call(f"s{i}_{tool}", args)).text)


async def open_(specs, ready):
    index = {s.name: i for i, s in enumerate(specs)}
    seen = set()

    def on_event(event):
        if event.type == "tools_changed" and event.data["server"] not in seen:
            seen.add(event.data["server"])
            ready(index[event.data["server"]], len(event.data["live"]))

    mixed = any(s.slow for s in specs)
    rt = mcprt.AsyncRuntime(**options(specs), **({"on_event": on_event} if mixed else {}))
    report = await rt.connect(**({"gate": "eager"} if os.environ.get("BENCH_CACHE") else {"startup_timeout": math.inf}))
    if not mixed:
        ready_from(report, specs, ready)
    return Pool(rt)


main(open=open_)

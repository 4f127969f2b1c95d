"""mcprt's blocking Runtime. Its calls block the loop of the driver core, which is fair for
one call at a time; many in flight are mcprt_aio's."""
import math
import os

from bench import main
from mcprt_options import options, ready_from
import mcprt


class Pool:
    def __init__(self, rt):
        self.rt = rt

    async def list(self, i):
        return len([tool.input_schema for tool in self.rt.list(server=f"s{i}", refresh=True)])

    async def call(self, i, tool, args):
        return len(self.rt.call(f"s{i}_{tool}", args).text)


async def open_(specs, ready):
    rt = mcprt.Runtime(**options(specs))
    report = rt.connect(**({"gate": "eager"} if os.environ.get("BENCH_CACHE") else {"startup_timeout": math.inf}))
    ready_from(report, specs, ready)
    return Pool(rt)


main(open=open_)

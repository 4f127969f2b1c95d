"""Fastmcp's Client, one per server."""
from contextlib import asynccontextmanager

from bench import main
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


class Conn:
    def __init__(self, c):
        self.c = c

    async def list(self):
        return len(await self.c.list_tools())

    async def call(self, tool, args):
        r = await self.c.call_tool(tool, args)
        return sum(len(c.text) for c in r.content if c.type == "text")


@asynccontextmanager
async def connect(s):
    t = StreamableHttpTransport(s.url) if s.url else StdioTransport(command=s.command, args=s.args)
    async with Client(t) as c:
        yield Conn(c)


main(connect=connect)

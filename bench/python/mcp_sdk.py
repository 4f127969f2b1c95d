"""The official `mcp` package's
ClientSession, one per server."""
from contextlib import asynccontextmanager

from bench import main
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


class Conn:
    def __init__(self, s):
        self.s = s

    async def list(self):
        return len((await self.s.list_tools()).tools)

    async def call(self, tool, args):
        r = await self.s.call_tool(tool, args)
        return sum(len(c.text) for c in r.content if c.type == "text")


@asynccontextmanager
async def connect(s):
    t = streamable_http_client(s.url) if s.url else stdio_client(StdioServerParameters(command=s.command, args=s.args))
    async with t as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield Conn(session)


main(connect=connect)

"""A FastMCP server for the tests: what this framework does differently on the wire
(structured output by default, a resource template, a prompt, progress). It speaks
over stdio, or over HTTP on the port that is its argument."""

import asyncio
import sys

from fastmcp import Context, FastMCP

mcp = FastMCP("fastmcp-test")


@mcp.tool(annotations={"readOnlyHint": True})
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@mcp.tool
async def count(to: int, ctx: Context) -> str:
    """Count, reporting progress."""
    for i in range(1, to + 1):
        await ctx.report_progress(i, to)
        await asyncio.sleep(0.01)
    return f"counted to {to}"


@mcp.tool
def refuse(reason: str) -> str:
    """Fail with a reason."""
    raise ValueError(reason)


@mcp.resource("greeting://{name}")
def greeting(name: str) -> str:
    return f"Hello, {name}!"


@mcp.prompt
def summarize(text: str) -> str:
    return f"Summarize: {text}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
    else:
        mcp.run(show_banner=False)

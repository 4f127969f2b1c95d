"""A server of the official Python SDK for the tests, over HTTP on the port that is its argument."""

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("python-sdk-test")


@server.tool()
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@server.tool()
def refuse(reason: str) -> str:
    """Fail with a reason."""
    raise ValueError(reason)


@server.resource("note://one")
def note() -> str:
    return "a note"


if __name__ == "__main__":
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))

"""A small MCP server on stdin and stdout whose answers are exact bytes, for the tests; it needs the standard library only.

Tools: ``exact`` (the bytes of EXACT), ``big`` (``bytes`` letters), ``hang`` (never answers), ``cancelled`` (how many
requests were cancelled so far), ``ask`` (an elicitation, its answer as text), ``die`` (exits with 7), ``env`` (the
value of ``name``), ``log`` (a log message first), ``burst`` (``count`` progress notices first).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict

EXACT = (
    '{ "content" : [{"type":"hologram","depth":1.50,"nested":{"a":[1,2,{}]}}, {"text":"\u2603 \\u2603 \\"]}","type":"text"}],'
    '\t"big":9007199254740993,"tiny":1e-400,"unknown":{"z":null,"a":true},"isError":false}'
).encode()

TOOLS = ("ask", "big", "burst", "cancelled", "die", "env", "exact", "hang", "log", "meta")


def send(raw: bytes) -> None:
    sys.stdout.buffer.write(raw + b"\n")
    sys.stdout.buffer.flush()


def send_json(message: Dict[str, Any]) -> None:
    send(json.dumps({"jsonrpc": "2.0", **message}).encode())


def answer(id: Any, raw: bytes) -> None:
    send(b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":' + raw + b"}")


def text(id: Any, value: str) -> None:
    answer(id, json.dumps({"content": [{"type": "text", "text": value}]}).encode())


def call(id: Any, params: Dict[str, Any], cancelled: int, asked: Dict[str, Any]) -> None:
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "exact":
        answer(id, EXACT)
    elif name == "big":
        answer(id, b'{"content":[{"type":"text","text":"' + b"x" * arguments["bytes"] + b'"}]}')
    elif name == "cancelled":
        text(id, str(cancelled))
    elif name == "ask":
        asked[f"ask-{id}"] = id
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        send_json(
            {
                "id": f"ask-{id}",
                "method": "elicitation/create",
                "params": {"message": "Your name?", "requestedSchema": schema},
            }
        )
    elif name == "die":
        print("out of coffee", file=sys.stderr, flush=True)
        os._exit(7)
    elif name == "env":
        text(id, os.environ.get(arguments["name"], "(not set)"))
    elif name == "log":
        send_json({"method": "notifications/message", "params": {"level": "warning", "logger": "s", "data": {"n": 1}}})
        text(id, "logged")
    elif name == "meta":
        text(id, json.dumps(params.get("_meta")))
    elif name == "burst":
        token = params["_meta"]["progressToken"]
        for n in range(1, arguments["count"] + 1):
            send_json({"method": "notifications/progress", "params": {"progressToken": token, "progress": n}})
        text(id, "burst")
    # "hang" is not answered.


def main() -> None:
    cancelled = 0
    asked: Dict[str, Any] = {}
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
            answer(id, json.dumps(result).encode())
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object", "x-exact": 1.50}} for name in TOOLS]
            answer(id, json.dumps({"tools": tools}).encode())
        elif method == "tools/call":
            call(id, message["params"], cancelled, asked)
        elif method == "ping":
            answer(id, b"{}")
        elif method == "notifications/cancelled":
            cancelled += 1
        elif method is None and id in asked:
            text(asked.pop(id), json.dumps(message.get("result") or message.get("error")))
        elif id is not None and method is not None:
            send_json({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})


if __name__ == "__main__":
    main()

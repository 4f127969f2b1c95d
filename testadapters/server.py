"""A small MCP server on stdin and stdout with tools as servers write them; it needs the standard library only.

Tools: ``echo`` (its arguments as text), ``odd`` (the same, with a schema that no provider takes as it is), ``tree`` (the
same, with a schema that holds itself), ``picture`` (text and a PNG), ``paper`` (a PDF), ``sloppy`` (a PNG in lines of the
URL's alphabet, and one that is none), ``numbers`` (structured content alone), ``fail`` (reports its failure),
``fail_in_file`` (the same, in a resource and a PNG), ``fail_silently``, ``hang`` (never answers; ``cancelled`` says how often that was given up). A file
of more schemas by name may be the one argument: their tools are like ``echo``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJSVFT0YK"

TEXT = {"type": "object", "properties": {"text": {"type": "string"}, "config": {"type": "string"}}, "required": ["text"]}
ODD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "oneOf": [
        {"type": "object", "properties": {"$top": {"type": "integer", "enum": [1, 2]}}, "required": ["$top"]},
        {"$ref": "#/definitions/list"},
    ],
    "definitions": {"list": {"type": "object", "properties": {"items": {"type": "array"}, "pair": {"items": [{}, {}]}}}},
}
TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
}
NOTHING: dict[str, Any] = {"type": "object"}
SCHEMAS = {
    "cancelled": NOTHING,
    "echo": TEXT,
    "fail": NOTHING,
    "fail_in_file": NOTHING,
    "fail_silently": NOTHING,
    "hang": NOTHING,
    "numbers": NOTHING,
    "odd": ODD,
    "paper": NOTHING,
    "picture": NOTHING,
    "sloppy": NOTHING,
    "tree": TREE,
}


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def result(name: str, arguments: Any, cancelled: int) -> dict[str, Any] | None:
    if name == "picture":
        return {
            "content": [{"type": "text", "text": "a dot"}, {"type": "image", "mimeType": "image/png", "data": PNG}]
        }
    if name == "paper":
        resource = {"uri": "file:///paper.pdf", "mimeType": "application/pdf", "blob": PDF}
        return {"content": [{"type": "resource", "resource": resource}]}
    if name == "numbers":
        return {"content": [], "structuredContent": {"n": [1, 2]}}
    if name == "fail":
        return {**text("out of paper"), "isError": True}
    if name == "sloppy":
        lines = PNG.replace("+", "-").replace("/", "_").rstrip("=")
        pictures = [lines[:40] + "\n" + lines[40:], "!"]
        return {"content": [{"type": "image", "mimeType": "image/png", "data": data} for data in pictures]}
    if name == "fail_in_file":
        log = {"type": "resource", "resource": {"uri": "file:///log", "text": "out of ink"}}
        return {"content": [log, {"type": "image", "mimeType": "image/png", "data": PNG}], "isError": True}
    if name == "fail_silently":
        return {"content": [], "isError": True}
    if name == "cancelled":
        return text(str(cancelled))
    return None if name == "hang" else text(json.dumps(arguments))


def main() -> None:
    cancelled = 0
    schemas: dict[str, Any] = dict(SCHEMAS)
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as file:
            schemas.update(json.load(file))
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        answer: dict[str, Any] | None = {}
        if method == "initialize":
            answer = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "adapters", "version": "1"},
            }
        elif method == "tools/list":
            tools = [
                {"name": name, "description": f"The tool {name}.", "inputSchema": schema, "annotations": {"title": name}}
                for name, schema in schemas.items()
            ]
            answer = {"tools": tools}
        elif method == "tools/call":
            answer = result(message["params"]["name"], message["params"].get("arguments"), cancelled)
        elif method == "notifications/cancelled":
            cancelled += 1
        if id is not None and answer is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": id, "result": answer}), flush=True)


if __name__ == "__main__":
    main()

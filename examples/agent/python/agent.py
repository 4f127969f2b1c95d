"""An agent loop on mcprt. Usage: agent.py SCRIPT.json, in a project with MCP servers."""

import base64
import json
import sys

import mcprt

# All that the model is ever shown. The servers' tools come and go; this list does not, and
# so the provider's prompt cache holds.
TOOLS = [
    {
        "name": "search_tools",
        "description": "Find tools by words of their names and descriptions.",
        "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
    {
        "name": "call_tool",
        "description": "Call a tool that search_tools found.",
        "input_schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name", "arguments"],
        },
    },
]


class Model:
    """In the place of a provider's client: does what the script says next."""

    def __init__(self, script):
        self.steps = iter(script)

    def next(self, messages, tools):
        return next(self.steps)


def search_tools(rt, query):
    found = rt.list(search=query)
    print(f"search: {query} -> {', '.join(tool.name for tool in found)}")
    return [{"type": "text", "text": json.dumps([{"name": t.name, "description": t.description, "input_schema": t.input_schema} for t in found])}]


def call_tool(rt, name, arguments):
    print(f"call: {name}", flush=True)
    try:
        result = rt.call(name, arguments, progress=lambda p: print(f"  progress {p.progress:g}/{p.total:g}"))
    except KeyboardInterrupt:  # the server has been told
        print("  cancelled")
        return [{"type": "text", "text": "The user cancelled this call."}]
    except mcprt.MCPError as error:
        print(f"  error: {error.code}")
        return error.result.content if error.result else [{"type": "text", "text": error.message}]
    if result.is_error:
        print(f"  failed: {result.text}")
    return [shown(block) for block in result.content]


def shown(block):
    """A content block of MCP as one that a model takes."""
    if block["type"] == "image":
        print(f"  {block['mimeType']}, {len(base64.b64decode(block['data']))} bytes")
        return {"type": "image", "source": {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}}
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    return {"type": "text", "text": json.dumps(block)}


def elicit(request):
    print(f"  asked: {request.params['message'].splitlines()[0]}")
    return {"action": "accept", "content": {"name": "Ada"}}  # a real host asks its user


def main(script):
    model = Model(script)
    messages = [{"role": "user", "content": "Show me what you can do."}]
    with mcprt.Runtime(project_trust="always", on_request={"elicitation": elicit}) as rt:
        for server, error in rt.connect().errors.items():
            print(f"{server}: {error.message}", file=sys.stderr)
        while "say" not in (turn := model.next(messages, TOOLS)):
            run = {"search_tools": search_tools, "call_tool": call_tool}[turn["tool"]]
            messages.append({"role": "assistant", "content": [turn]})
            messages.append({"role": "user", "content": run(rt, **turn["arguments"])})
        print(f"say: {turn['say']}")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        script = json.load(file)
    try:
        main(script)
    except KeyboardInterrupt:
        sys.exit(130)

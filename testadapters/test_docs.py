"""Runs the programs of docs/adapters.md as they are printed. Where they would ask a provider, a model answers that calls
``mcp_demo_echo`` once and then repeats what that said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "testadapters"
PROGRAMS = dict(
    (name, (language, text))
    for language, name, text in re.findall(
        r"^```(python|js) ([a-z-]+)\n(.*?)^```$", (ROOT / "docs/adapters.md").read_text("utf-8"), re.M | re.S
    )
)
NAME, ARGUMENTS = "mcp_demo_echo", {"text": "hi"}

LANGCHAIN_MODEL = """
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **more):
        assert "mcp_demo_echo" in [tool.name for tool in tools]
        return self

    def _generate(self, messages, *args, **more):
        if messages[-1].type == "tool":
            self.messages = iter([AIMessage("It said " + messages[-1].content)])
        return super()._generate(messages, *args, **more)

model = Model(messages=iter([AIMessage("", tool_calls=[{"type": "tool_call", "id": "c1", "name": "mcp_demo_echo", "args": {"text": "hi"}}])]))
"""
AI_MODEL = """
import { MockLanguageModelV4 } from 'ai/test'

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
export const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    const last = prompt[prompt.length - 1]
    return last.role === 'tool'
      ? { content: [{ type: 'text', text: 'It said ' + last.content[0].output.value }], finishReason: { unified: 'stop' }, usage, warnings: [] }
      : {
          content: [{ type: 'tool-call', toolCallId: 'c1', toolName: 'mcp_demo_echo', input: '{"text":"hi"}' }],
          finishReason: { unified: 'tool-calls' },
          usage,
          warnings: [],
        }
  },
})
"""


def chat(asked: dict[str, Any]) -> dict[str, Any]:
    assert NAME in [tool["function"]["name"] for tool in asked["tools"]]
    last = asked["messages"][-1]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if last["role"] == "tool":
        message["content"] = "It said " + last["content"]
    else:
        message["tool_calls"] = [
            {"id": "c1", "type": "function", "function": {"name": NAME, "arguments": json.dumps(ARGUMENTS)}}
        ]
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def responses(asked: dict[str, Any]) -> dict[str, Any]:
    assert NAME in [tool["name"] for tool in asked["tools"]]
    said = [item["output"] for item in asked["input"] if item.get("type") == "function_call_output"]
    item: dict[str, Any]
    if said:
        text = {"type": "output_text", "text": "It said " + said[0], "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    else:
        item = {"type": "function_call", "id": "f", "call_id": "c1", "name": NAME, "arguments": json.dumps(ARGUMENTS)}
    reply = {"id": "r", "object": "response", "created_at": 0, "model": "m", "output": [item], "status": "completed"}
    return {**reply, "tools": [], "parallel_tool_calls": True, "tool_choice": "auto"}


def messages(asked: dict[str, Any]) -> dict[str, Any]:
    assert NAME in [tool["name"] for tool in asked["tools"]]
    last = asked["messages"][-1]["content"]
    if isinstance(last, str):
        block: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": NAME, "input": ARGUMENTS}
    else:
        block = {"type": "text", "text": "It said " + last[0]["content"][0]["text"]}
    reply = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    return {**reply, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}, "content": [block]}


def generate(asked: dict[str, Any]) -> dict[str, Any]:
    assert NAME in [tool["name"] for tool in asked["tools"][0]["functionDeclarations"]]
    last = asked["contents"][-1]["parts"][0]
    if "functionResponse" in last:
        part: dict[str, Any] = {"text": "It said " + last["functionResponse"]["response"]["output"]}
    else:
        part = {"functionCall": {"id": "c1", "name": NAME, "args": ARGUMENTS}}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


ROUTES = {"/chat/completions": chat, "/responses": responses, "/messages": messages, ":generateContent": generate}


class Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (answer,) = [route for end, route in ROUTES.items() if self.path.split("?")[0].endswith(end)]
        body = json.dumps(answer(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[str]:
    """The address of a model on the loopback interface."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_every_program_is_run() -> None:
    text = (ROOT / "docs/adapters.md").read_text("utf-8")
    assert len(PROGRAMS) == len(re.findall("^```.", text, re.M)) == 6


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, tmp_path: Path, provider: str) -> None:
    language, text = PROGRAMS[name]
    demo = {"command": str(ROOT / "build/mcprt"), "args": ["demo-server"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": demo}}))
    (tmp_path / "model.py").write_text(LANGCHAIN_MODEL)
    (tmp_path / "model.mjs").write_text(AI_MODEL)
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")
    (tmp_path / "program.py").write_text(text)
    (tmp_path / "program.mjs").write_text(text)
    command = [sys.executable, "program.py"] if language == "python" else ["node", "program.mjs"]
    keys = {f"{name}_API_KEY": "none" for name in ("OPENAI", "ANTHROPIC", "GEMINI")}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={
            **os.environ,
            **keys,
            "MCPRT_LIBRARY": str(ROOT / "build/libmcprt.so.0"),
            "PYTHONPATH": str(ROOT / "bindings/python/src"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "OPENAI_BASE_URL": provider + "/v1",
            "ANTHROPIC_BASE_URL": provider,
            "GOOGLE_GEMINI_BASE_URL": provider,
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        },
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stdout) == (0, "It said hi\n"), done.stdout + done.stderr

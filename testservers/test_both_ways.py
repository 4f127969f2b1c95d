"""What a server asks and tells: server-everything over each transport, with a host that answers."""

import math
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List

import mcprt
import pytest

HERE = Path(__file__).resolve().parent
EVERYTHING = str(HERE / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
TRANSPORTS: Dict[str, Dict[str, Any]] = {
    "stdio": {"command": "node", "args": [EVERYTHING, "stdio"]},
    "http": {"type": "http", "url": os.environ["REMOTE_EVERYTHING"]},
    "sse": {"type": "sse", "url": os.environ["REMOTE_EVERYTHING_SSE"]},
}


class Host:
    """A runtime on one server, with what came besides the answers."""

    def __init__(self, config: Dict[str, Any]) -> None:
        self.asked: List[mcprt.Request] = []
        self.events: List[Dict[str, Any]] = []
        self.arrived = threading.Condition()
        self.rt = mcprt.Runtime(
            servers={"e": config},
            discovery={"user": "none", "project": False},
            cache={"enabled": False},
            startup_timeout=math.inf,
            timeout=60,
            on_event=self.on_event,
            on_request={
                "elicitation": self.answer({"action": "accept", "content": {"name": "Ada"}}),
                "sampling": self.answer({"role": "assistant", "content": {"type": "text", "text": "a poem"}, "model": "m"}),
                "roots": self.answer({"roots": [{"uri": "file:///a/place", "name": "the place"}]}),
            },
        )

    def answer(self, result: Dict[str, Any]) -> Any:
        def handler(request: mcprt.Request) -> Dict[str, Any]:
            self.asked.append(request)
            return result

        return handler

    def on_event(self, event: mcprt.Event) -> None:
        with self.arrived:
            self.events.append(event.data)
            self.arrived.notify_all()

    def wait_for(self, type: str, timeout: float = 20, **members: Any) -> Dict[str, Any]:
        def found() -> Any:
            return next((e for e in self.events if e["type"] == type and members.items() <= e.items()), None)

        with self.arrived:
            assert self.arrived.wait_for(found, timeout), f"no {type} {members} in {[e['type'] for e in self.events]}"
            event: Dict[str, Any] = found()
            return event


@pytest.fixture(scope="module", params=TRANSPORTS, ids=str)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    host = Host(TRANSPORTS[request.param])
    with host.rt as rt:
        report = rt.connect()
        assert not report.errors, report.errors
        yield host


def test_sampling(host: Host) -> None:
    result = host.rt.call("trigger-sampling-request", {"prompt": "a prompt", "maxTokens": 7}, server="e")
    assert "a poem" in result.text
    request = next(r for r in host.asked if r.kind == "sampling")
    assert request.params["maxTokens"] == 7 and request.server == "e"


def test_elicitation_fills_in_the_defaults(host: Host) -> None:
    result = host.rt.call("trigger-elicitation-request", server="e")
    assert "Ada" in result.text and "It was a dark and stormy night." in result.text


def test_url_elicitation(host: Host) -> None:
    result = host.rt.call("trigger-url-elicitation", {"url": "https://example.com/form", "message": "Go there"}, server="e")
    request = next(r for r in host.asked if r.params.get("mode") == "url")
    assert request.params["url"] == "https://example.com/form" and not result.is_error


def test_roots(host: Host) -> None:
    assert "file:///a/place" in host.rt.call("get-roots-list", server="e").text


def test_progress(host: Host) -> None:
    heard: List[mcprt.Progress] = []
    result = host.rt.call("trigger-long-running-operation", {"duration": 1, "steps": 4}, server="e", progress=heard.append)
    assert "completed" in result.text.lower()
    assert [p.progress for p in heard] == [1, 2, 3, 4] and heard[-1].total == 4


def test_progress_extends_the_timeout(host: Host) -> None:
    result = host.rt.call("trigger-long-running-operation", {"duration": 3, "steps": 6}, server="e", timeout=1.5)
    assert "completed" in result.text.lower()


def test_logging(host: Host) -> None:
    host.rt.request("e", "logging/setLevel", {"level": "debug"})
    host.rt.call("toggle-simulated-logging", server="e")
    try:
        host.wait_for("log", server="e")
    finally:
        host.rt.call("toggle-simulated-logging", server="e")


def test_resource_updates(host: Host) -> None:
    uri = host.rt.resources("e")[0]["uri"]
    host.rt.request("e", "resources/subscribe", {"uri": uri})
    host.rt.call("toggle-subscriber-updates", server="e")
    try:
        assert host.wait_for("resource_updated", server="e")["uri"] == uri
    finally:
        host.rt.call("toggle-subscriber-updates", server="e")


def test_list_changes(host: Host) -> None:
    """This server registers tools once it knows the client's capabilities, and tells."""
    names = {tool.tool for tool in host.rt.list()}
    assert {"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"} <= names
    before = len(host.rt.list())
    host.rt.connect(only=["e"], restart=True)
    host.wait_for("tools_changed", server="e")
    assert len(host.rt.list()) == before


def test_a_task_is_one_long_call(host: Host) -> None:
    """The tool can only be called as a task of 2025-11-25, and asks meanwhile."""
    result = host.rt.call("simulate-research-query", {"topic": "mcp", "ambiguous": False}, server="e", timeout=60)
    assert "Research Report: mcp" in result.text


def test_resources_templates_prompts_completion(host: Host) -> None:
    rt = host.rt
    assert rt.resources("e") and rt.resource_templates("e") and rt.prompts("e")
    uri = rt.resources("e")[0]["uri"]
    assert rt.request("e", "resources/read", {"uri": uri}).data["contents"][0]["uri"] == uri
    assert rt.request("e", "prompts/get", {"name": "simple-prompt"}).data["messages"]
    completion = rt.request(
        "e",
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "completable-prompt"}, "argument": {"name": "department", "value": "E"}},
    )
    assert completion.data["completion"]["values"] == ["Engineering"]

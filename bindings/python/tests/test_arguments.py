"""Junk arguments: whatever a program gives, it gets an InvalidRequestError that names the argument, before anything is sent."""

from __future__ import annotations

import asyncio
import types
from typing import Any, Callable, Dict, List

import pytest

import mcprt

NO_MAPPINGS: List[Any] = [5, "text", b"bytes", [1], True, object()]
NO_FUNCTIONS: List[Any] = [5, "text", [], {}]


@pytest.fixture
def runtime(stub: str) -> Any:
    with mcprt.Runtime() as rt:
        yield rt


def refused(run: Callable[[], object], words: str) -> None:
    with pytest.raises(mcprt.InvalidRequestError) as caught:
        run()
    assert type(caught.value) is mcprt.InvalidRequestError
    assert caught.value.code == "invalid_request"
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)
    assert words in caught.value.message


def keywords() -> List[Any]:
    cases: List[Any] = []
    for junk in NO_MAPPINGS:
        cases += [
            ({"options": junk}, "options must be a mapping"),
            ({"on_request": junk}, "on_request must be a mapping"),
            ({"env": junk}, "env must be a mapping"),
        ]
    for junk in NO_FUNCTIONS:
        cases += [
            ({"on_event": junk}, "on_event must be a function"),
            ({"on_request": {"roots": junk}}, "on_request['roots'] must be a function"),
        ]
    cases += [
        ({"on_request": {5: print}}, "the names in on_request must be strings"),
        ({"env": {"A": 5}}, "the names and values of env must be strings"),
        ({"env": {5: "A"}}, "the names and values of env must be strings"),
        ({"cache": {5: 5}}, "the name of an option is a string"),
        ({"cwd": 5}, "a path is a string"),
        ({"cwd": b"/"}, "a path is a string"),
        ({"library": 5}, "a path is a string"),
        ({"discovery": {"files": "/one"}}, "discovery.files must be a list, not one string"),
        ({"discovery": {"files": 5}}, "discovery.files must be a list"),
        ({"discovery": {"files": [5]}}, "a path is a string"),
        ({"timeout": "5"}, "a duration is a number of seconds"),
        ({"timeout": []}, "a duration is a number of seconds"),
        ({"servers": {"a": {"command": object()}}}, "this cannot be written as JSON"),
        ({"servers": {"a": {"command": {1, 2}}}}, "this cannot be written as JSON"),
    ]
    return cases


@pytest.mark.parametrize(("given", "words"), keywords())
def test_keywords(stub: str, given: Dict[str, Any], words: str) -> None:
    refused(lambda: mcprt.Runtime(**given), words)

    async def make() -> None:
        refused(lambda: mcprt.AsyncRuntime(**given), words)

    asyncio.run(make())


def deep() -> Any:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    return value


def circle() -> Any:
    value: Dict[str, Any] = {}
    value["self"] = value
    return value


def test_verbs(runtime: Any) -> None:
    for junk in NO_MAPPINGS:
        refused(lambda: runtime.call("t", junk), "arguments must be a mapping")
        refused(lambda: runtime.request(None, "mcprt/stats", junk), "params must be a mapping")
    for junk in ["demo", b"demo", 5]:
        refused(lambda: runtime.connect(junk), "only must be a list")
        refused(lambda: runtime.connect(authorize=junk), "authorize must be a list")
        refused(lambda: runtime.list(names=junk), "names must be a list")
    for junk in ["5", [], None.__class__]:
        refused(lambda: runtime.call("t", timeout=junk), "a duration is a number of seconds")
        refused(lambda: runtime.events(timeout=junk), "a duration is a number of seconds")
        refused(lambda: runtime.close(junk), "a duration is a number of seconds")
    refused(lambda: runtime.events(timeout=-1), "0 seconds or more")
    refused(lambda: runtime.call("t", progress=5), "progress must be a function")
    for junk in [{"a": object()}, {"a": float("nan")}, {"a": "\ud800"}, {"a": deep()}, circle()]:
        refused(lambda: runtime.call("t", junk), "this cannot be written as JSON")
    refused(lambda: runtime.call("t", {"a": object()}, format="openai"), "this cannot be written as JSON")
    assert [tool.name for tool in runtime.list()], "it is as usable as before"


def test_any_mapping_is_an_object(runtime: Any) -> None:
    arguments = types.MappingProxyType({"text": "hi", "inner": types.MappingProxyType({})})
    assert runtime.call("mcp_demo_echo", arguments).text == "hi"


def test_what_the_library_itself_refuses() -> None:
    junks: List[Any] = [None, 5, True, [], {}]
    with mcprt.Runtime(discovery={"project": False, "user": "none"}, cache={"enabled": False}) as rt:
        for junk in junks:
            with pytest.raises(mcprt.MCPError):
                rt.call(junk)
            with pytest.raises(mcprt.MCPError):
                rt.request(None, junk)
            with pytest.raises(mcprt.MCPError):
                rt.login(junk)


def test_the_path_that_the_program_gives_wins_and_stays(stub: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("MCPRT_LIBRARY", str(tmp_path / "nothing.so"))
    with pytest.raises(mcprt.LibraryError, match=f"the keyword library names {tmp_path}/other.so, but there is no such file"):
        mcprt.Runtime(library=tmp_path / "other.so")
    mcprt.Runtime(library=stub).close()
    mcprt.Runtime().close()
    with pytest.raises(mcprt.LibraryError, match=f"uses the mcprt library {stub} already, and cannot use {tmp_path}/other.so besides"):
        mcprt.Runtime(library=tmp_path / "other.so")

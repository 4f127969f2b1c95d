"""LangChain's tools with a scripted chat model: nothing is sent."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import mcprt
import mcprt.langchain
import pytest
from conftest import async_runtime
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from server import PDF, PNG, SCHEMAS


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name.removeprefix("mcp_s_"): tool for tool in tools}


def asks(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call", "id": "c1", "name": f"mcp_s_{name}", "args": arguments}


def test_a_loop(rt: mcprt.Runtime) -> None:
    tools = by_name(mcprt.langchain.load_tools(rt))
    model = GenericFakeChatModel(
        messages=iter([AIMessage("", tool_calls=[asks("odd", {"input": {"_top_81bf98e4": 1}})]), AIMessage("One.")])
    )
    messages: list[Any] = [HumanMessage("Top one.")]
    while True:
        reply = model.invoke(messages)
        messages.append(reply)
        assert isinstance(reply, AIMessage)
        if not reply.tool_calls:
            break
        for call in reply.tool_calls:
            messages.append(tools[call["name"].removeprefix("mcp_s_")].invoke(call))
    assert messages[-1].content == "One."
    answer = messages[2]
    assert isinstance(answer, ToolMessage) and (answer.content, answer.status, answer.tool_call_id) == ('{"$top": 1}', "success", "c1")
    assert isinstance(answer.artifact, mcprt.CallResult)


def test_what_the_model_is_offered(rt: mcprt.Runtime) -> None:
    tools = mcprt.langchain.load_tools(rt)
    assert len(tools) == len(SCHEMAS)
    for tool in tools:
        offered = convert_to_openai_tool(tool)["function"]
        assert offered["name"] == tool.name and offered["parameters"]["type"] == "object", offered
    (echo,) = mcprt.langchain.load_tools(rt, names=["mcp_s_echo"])
    assert echo.args == SCHEMAS["echo"]["properties"]
    assert echo.metadata == {"server": "s", "tool": "echo", "annotations": {"title": "echo"}}
    assert mcprt.langchain.load_tools(rt, server="s", search="nothing like it") == []


def test_arguments_of_any_name(rt: mcprt.Runtime) -> None:
    tools = by_name(mcprt.langchain.load_tools(rt))
    given = {"text": "hi", "config": "c", "self": "s", "run_manager": "m", "func": "f"}
    assert tools["echo"].invoke(asks("echo", given)).content == (
        '{"text": "hi", "config": "c", "self": "s", "run_manager": "m", "func": "f"}'
    )
    assert "func" in asyncio.run(tools["echo"].ainvoke(asks("echo", given))).content


def test_pictures_and_papers(rt: mcprt.Runtime) -> None:
    tools = by_name(mcprt.langchain.load_tools(rt))
    shown = tools["picture"].invoke(asks("picture", {}))
    assert shown.content_blocks == [
        {"type": "text", "text": "a dot"},
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
    ]
    paper = tools["paper"].invoke(asks("paper", {}))
    assert paper.content == [{"type": "file", "base64": PDF, "mime_type": "application/pdf"}]
    numbers = tools["numbers"].invoke(asks("numbers", {}))
    assert numbers.content == '{"n":[1,2]}' or numbers.content == '{"n": [1, 2]}'
    assert numbers.artifact.structured == {"n": [1, 2]}
    sloppy = tools["sloppy"].invoke(asks("sloppy", {}))
    assert sloppy.content == [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "text", "text": "[image/png, no valid base64: cannot be shown here]"},
    ]


def test_failures(rt: mcprt.Runtime) -> None:
    tools = by_name(mcprt.langchain.load_tools(rt, timeout=0.05))
    failed = tools["fail"].invoke(asks("fail", {}))
    assert (failed.status, failed.content) == ("error", "out of paper")
    failed = tools["fail_in_file"].invoke(asks("fail_in_file", {}))
    assert failed.content == "[file:///log]\nout of ink\n[image/png, 70 bytes: cannot be shown here]"
    assert tools["fail_silently"].invoke(asks("fail_silently", {})).content == "the tool failed and did not say why"
    late = tools["hang"].invoke(asks("hang", {}))
    assert late.status == "error" and "50 ms" in late.content
    strict = by_name(mcprt.langchain.load_tools(rt, timeout=0.05, handle_tool_error=False))
    with pytest.raises(ToolException, match="out of paper"):
        strict["fail"].invoke(asks("fail", {}))
    with pytest.raises(ToolException, match="50 ms") as caught:
        strict["hang"].invoke(asks("hang", {}))
    assert isinstance(caught.value.__cause__, mcprt.TimeoutError)
    rt.close()
    with pytest.raises(mcprt.ClosedError):
        tools["echo"].invoke(asks("echo", {"text": "x"}))


async def in_flight(rt: mcprt.AsyncRuntime) -> int:
    return int((await rt.stats()).servers["s"]["inFlight"])


def test_asyncio(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with async_runtime(options) as rt:
            tools = by_name(await mcprt.langchain.aload_tools(rt))
            assert (await tools["echo"].ainvoke(asks("echo", {"text": "hi"}))).content == '{"text": "hi"}'
            assert (await tools["fail"].ainvoke(asks("fail", {}))).status == "error"
            with pytest.raises(NotImplementedError, match="ainvoke"):
                tools["echo"].invoke(asks("echo", {"text": "hi"}))
            task = asyncio.create_task(tools["hang"].ainvoke(asks("hang", {})))
            while await in_flight(rt) == 0:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            end = time.monotonic() + 5
            while (await tools["cancelled"].ainvoke(asks("cancelled", {}))).content != "1":
                assert time.monotonic() < end, "the server was not told"

    asyncio.run(main())

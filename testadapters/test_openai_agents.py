"""The OpenAI Agents SDK with a scripted model: nothing is sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import mcprt
import mcprt.openai_agents
import pytest
from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, Usage, UserError
from conftest import async_runtime
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from server import PDF, PNG, SCHEMAS

QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """Calls tools in its first turn, and says "done" in the next."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self.calls = calls
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:
        self.inputs.append(input)
        output: list[Any]
        if len(self.inputs) == 1:
            output = [
                ResponseFunctionToolCall(type="function_call", call_id=f"c{i}", name=f"mcp_s_{name}", arguments=arguments)
                for i, (name, arguments) in enumerate(self.calls)
            ]
        else:
            said = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[said])]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def shown(self) -> list[Any]:
        return [item["output"] for item in self.inputs[-1] if item.get("type") == "function_call_output"]


ODD = json.dumps({"input": {"$top": 1}})


def test_a_run(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with async_runtime(options) as rt:
            tools = await mcprt.openai_agents.aload_tools(rt, timeout=5)
            assert len(tools) == len(SCHEMAS)
            assert all(isinstance(tool, FunctionTool) and not tool.strict_json_schema for tool in tools)
            model = Scripted(
                ("echo", '{"text":"hi"}'), ("odd", ODD), ("picture", "{}"), ("fail", ""), ("paper", "{}"), ("echo", "{")
            )
            result = await Runner.run(Agent(name="a", model=model, tools=tools), "x", run_config=QUIET)
            assert result.final_output == "done"
            echo, odd, picture, fail, paper, broken = model.shown()
            assert (echo, odd, fail) == ('{"text": "hi"}', '{"$top": 1}', "out of paper")
            assert picture[0] == {"type": "input_text", "text": "a dot"}
            assert picture[1]["type"] == "input_image" and picture[1]["image_url"].endswith(PNG)
            assert paper[0]["type"] == "input_file" and paper[0]["file_data"].endswith(PDF)
            assert "JSON" in broken

    asyncio.run(main())


def test_a_cancelled_run(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with async_runtime(options) as rt:
            tools = await mcprt.openai_agents.aload_tools(rt)
            agent = Agent(name="a", model=Scripted(("hang", "{}")), tools=tools)
            run = asyncio.create_task(Runner.run(agent, "x", run_config=QUIET))
            while int((await rt.stats()).servers["s"]["inFlight"]) == 0:
                await asyncio.sleep(0.005)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            end = time.monotonic() + 5
            while (await rt.call("mcp_s_cancelled")).text != "1":
                assert time.monotonic() < end, "the server was not told"

    asyncio.run(main())


def test_a_blocking_runtime(rt: mcprt.Runtime) -> None:
    model = Scripted(("echo", '{"text":"hi"}'), ("hang", "{}"))
    agent = Agent(name="a", model=model, tools=mcprt.openai_agents.load_tools(rt, timeout=0.05))
    assert Runner.run_sync(agent, "x", run_config=QUIET).final_output == "done"
    echo, late = model.shown()
    assert echo == '{"text": "hi"}' and "50 ms" in late


def test_a_closed_runtime(rt: mcprt.Runtime) -> None:
    agent = Agent(name="a", model=Scripted(("echo", "{}")), tools=mcprt.openai_agents.load_tools(rt))
    rt.close()
    with pytest.raises((mcprt.ClosedError, UserError), match="closed"):
        Runner.run_sync(agent, "x", run_config=QUIET)

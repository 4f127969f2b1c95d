"""The tools of MCP servers for the OpenAI Agents SDK; needs ``openai-agents`` (``pip install mcprt[openai-agents]``).

::

    async with mcprt.AsyncRuntime(cwd=".") as rt:
        await rt.connect()
        agent = Agent(name="Assistant", tools=await mcprt.openai_agents.aload_tools(rt))
"""

from __future__ import annotations

import asyncio
from typing import Any, Iterable, List, Literal, Optional, Union

try:
    from agents import FunctionTool, Tool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext
except ImportError as missing:
    raise ImportError("mcprt.openai_agents needs openai-agents: pip install mcprt[openai-agents]") from missing

from ._aio import AsyncRuntime
from ._errors import CanceledError, ClosedError, ForkError, MCPError
from ._runtime import Runtime
from ._types import CallResult, FormattedTools, Json

__all__ = ["aload_tools", "load_tools"]

_FORMAT: Literal["openai-responses"] = "openai-responses"
_ToolOutput = Union[ToolOutputText, ToolOutputImage, ToolOutputFileContent]


def load_tools(
    runtime: Runtime,
    *,
    server: Optional[str] = None,
    names: Optional[Iterable[str]] = None,
    search: Optional[str] = None,
    timeout: Optional[float] = None,
) -> List[Tool]:
    """The tools that the runtime knows now (see :meth:`mcprt.Runtime.list` for the choice), for an ``Agent``.

    Deferred ones are among them: a call waits for its server. ``timeout`` of each call is in seconds. The model is
    told of calls that fail and tools that report failure; only the end of the runtime (:class:`mcprt.ClosedError`,
    :class:`mcprt.CanceledError`) ends the run. A call blocks a thread of asyncio's default pool; see
    :func:`aload_tools`. Load again after a ``tools_changed`` event.
    """
    return _make(runtime, runtime.tools(_FORMAT, server=server, names=names, search=search), timeout)


async def aload_tools(
    runtime: AsyncRuntime,
    *,
    server: Optional[str] = None,
    names: Optional[Iterable[str]] = None,
    search: Optional[str] = None,
    timeout: Optional[float] = None,
) -> List[Tool]:
    """As :func:`load_tools`, for the runtime's event loop; a run that is cancelled cancels its calls at the servers."""
    return _make(runtime, await runtime.tools(_FORMAT, server=server, names=names, search=search), timeout)


def _make(runtime: Union[Runtime, AsyncRuntime], formatted: FormattedTools, timeout: Optional[float]) -> List[Tool]:
    return [_tool(runtime, item, timeout) for item in formatted]


def _tool(runtime: Union[Runtime, AsyncRuntime], item: Json, timeout: Optional[float]) -> FunctionTool:
    name: str = item["name"]

    async def call(context: ToolContext[Any], arguments: str) -> Union[str, List[_ToolOutput]]:
        call_id = context.tool_call_id
        try:
            if isinstance(runtime, AsyncRuntime):
                result = await runtime.call(name, arguments, timeout=timeout, format=_FORMAT, call_id=call_id)
            else:
                result = await asyncio.to_thread(
                    runtime.call, name, arguments, timeout=timeout, format=_FORMAT, call_id=call_id
                )
        except (CanceledError, ClosedError, ForkError):
            raise
        except MCPError as error:
            if error.result is None:
                raise
            result = error.result
        return _output(result)

    return FunctionTool(
        name=name,
        description=item.get("description", ""),
        params_json_schema=item["parameters"],
        on_invoke_tool=call,
        strict_json_schema=False,
    )


def _output(result: CallResult) -> Union[str, List[_ToolOutput]]:
    output = result.message["output"]
    if isinstance(output, str):
        return output
    made: List[_ToolOutput] = []
    for part in output:
        if part["type"] == "input_image":
            made.append(ToolOutputImage(image_url=part["image_url"]))
        elif part["type"] == "input_file":
            made.append(ToolOutputFileContent(file_data=part["file_data"], filename=part["filename"]))
        else:
            made.append(ToolOutputText(text=part["text"]))
    return made

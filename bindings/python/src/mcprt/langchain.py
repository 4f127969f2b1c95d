"""The tools of MCP servers as LangChain tools; needs ``langchain-core`` (``pip install mcprt[langchain]``).

::

    with mcprt.Runtime(cwd=".") as rt:
        rt.connect()
        model_with_tools = model.bind_tools(mcprt.langchain.load_tools(rt))
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Callable, Dict, Iterable, List, Literal, Optional, Tuple, Union

try:
    from langchain_core.tools import BaseTool, ToolException
    from pydantic import PrivateAttr
except ImportError as missing:
    raise ImportError("mcprt.langchain needs langchain-core: pip install mcprt[langchain]") from missing

from ._aio import AsyncRuntime
from ._errors import CanceledError, ClosedError, ForkError, MCPError
from ._runtime import Runtime
from ._types import CallResult, FormattedTools, Json, Listing, Tool

__all__ = ["McpTool", "aload_tools", "load_tools"]

# Plain JSON Schema without what any provider refuses: LangChain's own packages make each provider's form of it.
_FORMAT: Literal["anthropic"] = "anthropic"

OnError = Union[bool, str, Callable[[ToolException], str]]


class McpTool(BaseTool):
    """One tool of an MCP server. Made by :func:`load_tools`.

    The content of a result is text, or a list of LangChain's content blocks where there are pictures, sound or files;
    the artifact is the :class:`mcprt.CallResult`. A tool that reports its failure, and a call that fails, raise
    ``ToolException``: with ``handle_tool_error`` (the default here) the model is told, without it the caller. What
    ends the whole program's use of the runtime (:class:`mcprt.ClosedError`, :class:`mcprt.CanceledError`) is raised
    as it is. Any thread may use a tool of a :class:`mcprt.Runtime`; one of an :class:`mcprt.AsyncRuntime` belongs to
    its event loop and has ``ainvoke`` only, where cancelling the task cancels the call at the server.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    _runtime: Union[Runtime, AsyncRuntime] = PrivateAttr()
    _timeout: Optional[float] = PrivateAttr(default=None)

    # No parameter has a name: a tool's own argument may be called "config" or "self", too.
    def _run(self, /, *args: Any, **arguments: Any) -> Tuple[Any, CallResult]:
        if not isinstance(self._runtime, Runtime):
            raise NotImplementedError("this tool belongs to an AsyncRuntime: use ainvoke, or load it from a Runtime")
        try:
            return _outcome(self._runtime.call(self.name, arguments, timeout=self._timeout, format=_FORMAT))
        except MCPError as error:
            raise _shown(error) from error

    async def _arun(self, /, *args: Any, **arguments: Any) -> Tuple[Any, CallResult]:
        if not isinstance(self._runtime, AsyncRuntime):
            return await asyncio.to_thread(self._run, **arguments)  # a Runtime blocks
        try:
            return _outcome(await self._runtime.call(self.name, arguments, timeout=self._timeout, format=_FORMAT))
        except MCPError as error:
            raise _shown(error) from error


def load_tools(
    runtime: Runtime,
    *,
    server: Optional[str] = None,
    names: Optional[Iterable[str]] = None,
    search: Optional[str] = None,
    timeout: Optional[float] = None,
    handle_tool_error: OnError = True,
) -> List[BaseTool]:
    """The tools that the runtime knows now (see :meth:`mcprt.Runtime.list` for the choice), as LangChain's.

    Deferred ones are among them: a call waits for its server. ``timeout`` of each call is in seconds. Load again
    after a ``tools_changed`` event.
    """
    chosen = None if names is None else list(names)
    formatted = runtime.tools(_FORMAT, server=server, names=chosen, search=search)
    listed = runtime.list(server=server, names=chosen, search=search)
    return _make(runtime, formatted, listed, timeout, handle_tool_error)


async def aload_tools(
    runtime: AsyncRuntime,
    *,
    server: Optional[str] = None,
    names: Optional[Iterable[str]] = None,
    search: Optional[str] = None,
    timeout: Optional[float] = None,
    handle_tool_error: OnError = True,
) -> List[BaseTool]:
    """As :func:`load_tools`."""
    chosen = None if names is None else list(names)
    formatted = await runtime.tools(_FORMAT, server=server, names=chosen, search=search)
    listed = await runtime.list(server=server, names=chosen, search=search)
    return _make(runtime, formatted, listed, timeout, handle_tool_error)


def _make(
    runtime: Union[Runtime, AsyncRuntime],
    formatted: FormattedTools,
    listed: Listing[Tool],
    timeout: Optional[float],
    handle_tool_error: OnError,
) -> List[BaseTool]:
    by_name = {tool.name: tool for tool in listed}
    made: List[BaseTool] = []
    for item in formatted:
        name: str = item["name"]
        listed_tool = by_name.get(formatted.names.get(name, name))
        metadata: Dict[str, Any] = {}
        if listed_tool is not None:
            metadata = {"server": listed_tool.server, "tool": listed_tool.tool, "annotations": listed_tool.annotations}
        tool = McpTool(
            name=name,
            description=item.get("description", ""),
            args_schema=item["input_schema"],
            metadata=metadata,
            handle_tool_error=handle_tool_error,
        )
        tool._runtime, tool._timeout = runtime, timeout
        made.append(tool)
    return made


def _shown(error: MCPError) -> Exception:
    if isinstance(error, (CanceledError, ClosedError, ForkError)):
        return error
    return ToolException(error.result.text if error.result is not None else str(error))


def _outcome(result: CallResult) -> Tuple[Any, CallResult]:
    if result.is_error:
        # In the format a failure is text alone, that of resources and links included, and never empty.
        raise ToolException("\n".join(part["text"] for part in result.message["content"]))
    blocks = [_block(item) for item in result.content]
    if not blocks and result.structured is not None:
        # The same as in a message of the format: its text is the JSON.
        blocks = [{"type": "text", "text": part["text"]} for part in result.message["content"]]
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks), result
    return blocks, result


def _block(item: Json) -> Json:
    """A content block of MCP as LangChain's standard one."""
    kind = item.get("type")
    if kind == "text":
        return {"type": "text", "text": str(item.get("text", ""))}
    if kind in ("image", "audio"):
        return _file(kind, item.get("data"), item.get("mimeType"))
    resource = item.get("resource") if kind == "resource" else None
    if isinstance(resource, dict):
        if "blob" not in resource:
            return {"type": "text", "text": f"[{resource.get('uri', '')}]\n{resource.get('text', '')}"}
        mime = resource.get("mimeType")
        return _file("image" if str(mime).startswith("image/") else "file", resource["blob"], mime)
    if kind == "resource_link":
        named = ", ".join(str(item[key]) for key in ("uri", "name", "mimeType", "description") if item.get(key))
        return {"type": "text", "text": f"[resource {named}]"}
    return {"type": "text", "text": str(item)}


def _file(kind: str, data: object, mime: object) -> Json:
    """What is no base64 would make the provider refuse the whole conversation, so that the model is told instead."""
    base64, mime = _standard_base64(str(data or "")), str(mime or "")
    if base64 is None:
        return {"type": "text", "text": f"[{mime or kind}, no valid base64: cannot be shown here]"}
    return {"type": kind, "base64": base64, "mime_type": mime}


def _standard_base64(sent: str) -> Optional[str]:
    """Servers send it also in lines, in the URL's alphabet, without padding, or as a whole data: URL."""
    body = re.sub(r"^data:[^,]*;base64,", "", sent)
    body = re.sub(r"[ \t\r\n]", "", body).replace("-", "+").replace("_", "/").rstrip("=")
    if not body or len(body) % 4 == 1 or re.fullmatch(r"[A-Za-z0-9+/]*", body) is None:
        return None
    return body + "=" * (-len(body) % 4)

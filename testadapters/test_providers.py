"""Tools and results in the requests of the providers' own SDKs, which a scripted model answers: nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import httpx2
import mcprt
import openai
import pytest
from anthropic.types import ToolParam, ToolResultBlockParam
from google.genai import types as gemini
from jsonschema import Draft202012Validator
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam, ChatCompletionUserMessageParam
from openai.types.responses import FunctionToolParam
from openai.types.responses.response_input_param import FunctionCallOutput
from pydantic import TypeAdapter
from server import PDF, PNG, SCHEMAS

Json = dict[str, Any]


class Scripted:
    """A model's service that answers each request with the next of its replies, and keeps what was asked."""

    def __init__(self, *replies: Json) -> None:
        self.replies = list(replies)
        self.asked: list[Json] = []

    def client(self, library: Any) -> Any:
        """For an SDK that uses this library for HTTP."""

        def answer(request: Any) -> Any:
            self.asked.append(json.loads(request.read()))
            return library.Response(200, json=self.replies.pop(0))

        return library.Client(transport=library.MockTransport(answer))


def check(schema: Any, value: Any) -> None:
    """The SDK's own type takes the value, and knows each of its members."""
    adapter = TypeAdapter(schema)
    known = adapter.dump_python(adapter.validate_python(value), mode="json", warnings="none")
    assert json.loads(json.dumps(known, default=list)) == value


@pytest.fixture
def picture(rt: mcprt.Runtime) -> Callable[[Any], mcprt.CallResult]:
    return lambda format: rt.call("mcp_s_picture", "{}", format=format, call_id="c1")


def test_schemas(rt: mcprt.Runtime) -> None:
    """Those in JSON Schema are valid, and take what the server takes."""
    accepted: dict[str, list[Json]] = {
        "echo": [{"text": "x"}, {"text": "x", "other": 1}],
        "odd": [{"$top": 1}, {"items": [1, "a"], "pair": [1]}],
        "tree": [{}, {"root": {"name": None, "children": [{"children": [{"name": "c", "children": [{}]}]}]}}],
    }
    formatted: dict[str, Callable[[Json], Json]] = {
        "openai": lambda tool: tool["function"]["parameters"],
        "openai-responses": lambda tool: tool["parameters"],
        "anthropic": lambda tool: tool["input_schema"],
    }
    for format, schema_of in formatted.items():
        tools = rt.tools(format)  # type: ignore[arg-type]
        assert len(tools) == len(SCHEMAS)
        for item in tools:
            schema = schema_of(item)
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object" and not {"oneOf", "anyOf", "allOf", "enum", "not"} & set(schema)
            if format == "anthropic":
                assert "$ref" not in json.dumps(schema)
        for name, values in accepted.items():
            (item,) = rt.tools(format, names=[f"mcp_s_{name}"])  # type: ignore[arg-type]
            schema = schema_of(item)
            for value in values:
                Draft202012Validator(SCHEMAS[name] if name != "odd" else {}).validate(value)
                written = value
                if name == "odd":
                    (renamed,) = schema["properties"]["input"]["anyOf"][0]["properties"]
                    written = {"input": {renamed if key == "$top" else key: part for key, part in value.items()}}
                Draft202012Validator(schema).validate(written)
                called = rt.call(f"mcp_s_{name}", written, format=format)  # type: ignore[arg-type]
                assert json.loads(called.text) == value


def test_openai(rt: mcprt.Runtime, picture: Callable[[Any], mcprt.CallResult]) -> None:
    tools = rt.tools("openai")
    assert tools.names == {}
    for tool in tools:
        check(ChatCompletionFunctionToolParam, tool)
    call = {"id": "c1", "type": "function", "function": {"name": "mcp_s_echo", "arguments": '{"text":"hi"}'}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    says = {"role": "assistant", "content": "It says hi."}
    completion = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    scripted = Scripted(*({**completion, "choices": [{"index": 0, "finish_reason": "stop", "message": m}]} for m in (asks, says)))
    client = openai.OpenAI(api_key="none", http_client=scripted.client(httpx))
    messages: list[Any] = [{"role": "user", "content": "Say hi."}]
    while True:
        reply = client.chat.completions.create(model="m", messages=messages, tools=list(tools)).choices[0].message  # type: ignore[arg-type]
        messages.append(reply.to_dict())
        if not reply.tool_calls:
            break
        for asked in reply.tool_calls:
            assert asked.type == "function"
            result = rt.call(asked.function.name, asked.function.arguments, format="openai", call_id=asked.id)
            check(ChatCompletionToolMessageParam, result.message)
            messages.append(result.message)
    assert reply.content == "It says hi."
    assert scripted.asked[0]["tools"] == list(tools)
    assert scripted.asked[1]["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": '{"text": "hi"}'}
    shown = picture("openai")
    check(ChatCompletionToolMessageParam, shown.message)
    check(ChatCompletionUserMessageParam, shown.follow_up)
    assert shown.follow_up is not None and PNG in json.dumps(shown.follow_up)


def test_openai_responses(rt: mcprt.Runtime, picture: Callable[[Any], mcprt.CallResult]) -> None:
    tools = rt.tools("openai-responses")
    for tool in tools:
        check(FunctionToolParam, tool)
    scripted = Scripted({"id": "r", "object": "response", "created_at": 0, "model": "m", "output": [], "tools": [], "parallel_tool_calls": True, "tool_choice": "auto"})
    client = openai.OpenAI(api_key="none", http_client=scripted.client(httpx))
    shown = picture("openai-responses").message
    check(FunctionCallOutput, shown)
    client.responses.create(model="m", input=[shown], tools=list(tools))  # type: ignore[list-item, arg-type]
    assert scripted.asked[0]["tools"] == list(tools)
    assert scripted.asked[0]["input"][0]["output"][1]["image_url"] == "data:image/png;base64," + PNG
    check(FunctionCallOutput, rt.call("mcp_s_paper", format="openai-responses", call_id="c").message)


def test_anthropic(rt: mcprt.Runtime, picture: Callable[[Any], mcprt.CallResult]) -> None:
    tools = rt.tools("anthropic")
    for tool in tools:
        check(ToolParam, tool)
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    use = {"type": "tool_use", "id": "t1", "name": "mcp_s_odd", "input": {"input": {"_top_81bf98e4": 1}}}
    scripted = Scripted(
        {**message, "stop_reason": "tool_use", "content": [use]},
        {**message, "stop_reason": "end_turn", "content": [{"type": "text", "text": "One."}]},
    )
    client = anthropic.Anthropic(api_key="none", http_client=scripted.client(httpx2))
    messages: list[Any] = [{"role": "user", "content": "Top one."}]
    while True:
        reply = client.messages.create(model="m", max_tokens=9, messages=messages, tools=list(tools))  # type: ignore[arg-type]
        messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
        results = [
            rt.call(block.name, block.input, format="anthropic", call_id=block.id).message
            for block in reply.content
            if block.type == "tool_use"
        ]
        if not results:
            break
        for result in results:
            check(ToolResultBlockParam, result)
        messages.append({"role": "user", "content": results})
    assert scripted.asked[0]["tools"] == list(tools)
    content = [{"type": "text", "text": '{"$top": 1}'}]
    assert scripted.asked[1]["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "t1", "content": content}]
    check(ToolResultBlockParam, picture("anthropic").message)
    check(ToolResultBlockParam, rt.call("mcp_s_paper", format="anthropic", call_id="c").message)
    failed = rt.call("mcp_s_fail", format="anthropic", call_id="c").message
    check(ToolResultBlockParam, failed)
    assert failed["is_error"] is True
    with pytest.raises(mcprt.UnknownToolError) as caught:
        rt.call("gone", {}, format="anthropic", call_id="c9")
    assert caught.value.result is not None
    check(ToolResultBlockParam, caught.value.result.message)
    assert caught.value.result.message["tool_use_id"] == "c9"


def test_gemini(rt: mcprt.Runtime, picture: Callable[[Any], mcprt.CallResult]) -> None:
    tools = rt.tools("gemini")
    declared = gemini.Tool(function_declarations=[gemini.FunctionDeclaration.model_validate(tool) for tool in tools])
    # Its models refuse members that they do not know; every type is one of theirs.
    assert declared.function_declarations is not None
    by_name = {tool.name: tool for tool in declared.function_declarations}
    assert by_name["mcp_s_picture"].parameters is None

    def walk(schema: gemini.Schema) -> int:
        if schema.any_of:
            assert schema.model_dump(exclude_none=True).keys() == {"any_of"}
            return sum(walk(part) for part in schema.any_of)
        assert isinstance(schema.type, gemini.Type), schema
        assert not schema.enum or schema.type is gemini.Type.STRING
        assert schema.properties is None or (schema.properties and schema.type is gemini.Type.OBJECT)
        assert set(schema.required or []) <= set(schema.properties or {})
        assert (schema.items is not None) == (schema.type is gemini.Type.ARRAY)
        return 1 + sum(walk(part) for part in [*(schema.properties or {}).values(), *([schema.items] if schema.items else [])])

    assert sum(walk(tool.parameters) for tool in by_name.values() if tool.parameters) > 20
    content = gemini.Content(role="user", parts=[gemini.Part.model_validate(picture("gemini").message)])
    assert content.parts is not None
    response = content.parts[0].function_response
    assert response is not None and response.parts is not None and response.parts[0].inline_data is not None
    assert (response.id, response.name, response.response) == ("c1", "mcp_s_picture", {"output": "a dot"})
    assert response.parts[0].inline_data.mime_type == "image/png"
    numbers = gemini.Part.model_validate(rt.call("mcp_s_numbers", format="gemini").message).function_response
    assert numbers is not None and numbers.response == {"output": {"n": [1, 2]}}
    failed = gemini.Part.model_validate(rt.call("mcp_s_fail", format="gemini").message).function_response
    assert failed is not None and failed.response == {"error": "out of paper"}
    paper = gemini.Part.model_validate(rt.call("mcp_s_paper", format="gemini").message).function_response
    assert paper is not None and paper.parts and PDF in json.dumps(paper.model_dump(mode="json"))

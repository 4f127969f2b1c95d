"""Cutting exact bytes out of a document."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from mcprt import ProtocolError, _json
from mcprt._types import CallResult


@pytest.mark.parametrize(
    ("document", "result"),
    [
        (b'{"result":{"a":1}}', b'{"a":1}'),
        (b'{"result":9007199254740993}', b"9007199254740993"),
        (b'{ "result" : [ 1 , {"x":"]}"} ] , "later":true}', b'[ 1 , {"x":"]}"} ]'),
        (b'{"error":{"message":"\\"result\\":1"},"result":{"isError":true}}', b'{"isError":true}'),
        (b'{"result":"\\\\"}', b'"\\\\"'),
        (b'{"result":"\\\\\\""}', b'"\\\\\\""'),
        (b'{"result":"a\\"}{,:","n":null}', b'"a\\"}{,:"'),
        (b'{"res\\u0075lt":1.50e2}', b"1.50e2"),
        ('{"result":{"snow":"\u2603","esc":"\\u2603"}}'.encode(), '{"snow":"\u2603","esc":"\\u2603"}'.encode()),
    ],
)
def test_result_is_cut_exactly(document: bytes, result: bytes) -> None:
    assert CallResult(document).raw == result


def test_empty_containers() -> None:
    assert _json.members(b"{}") == {}
    assert _json.members(b"{ \n}") == {}
    assert _json.elements(b"[]") == []
    assert _json.elements(b'[[],{},""]') == [b"[]", b"{}", b'""']


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-(10**20), 10**20)
    if kind in (2, 3):
        return "".join(rng.choice('ab"\\/{}[],:\n\t\u2603\U0001f600 ') for _ in range(rng.randrange(12)))
    if kind == 4:
        return rng.random()
    if kind == 5:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {str(i) + rng.choice('x"\\,'): _value(rng, depth - 1) for i in range(rng.randrange(4))}


def test_cuts_agree_with_the_decoder() -> None:
    rng = random.Random(7)
    for _ in range(400):
        separators = rng.choice([(",", ":"), (" , ", " : "), (",\n ", ": ")])
        ascii_only = rng.random() < 0.5
        pairs = {f"k{i}": _value(rng, 4) for i in range(rng.randrange(5))}
        document = json.dumps(pairs, separators=separators, ensure_ascii=ascii_only).encode()
        cut = _json.members(document)
        assert {name: json.loads(raw) for name, raw in cut.items()} == pairs
        assert all(raw in document and raw == raw.strip() for raw in cut.values())
        array = json.dumps(list(pairs.values()), separators=separators, ensure_ascii=ascii_only).encode()
        assert _json.elements(array) == [
            json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode() for value in pairs.values()
        ]


@pytest.mark.parametrize("document", [b"", b'{"a":1', b'{"a":"b', b'{"a":"b\\"}', b"[1,[2]"])
def test_a_document_that_ends_too_early_is_an_error(document: bytes) -> None:
    with pytest.raises(ProtocolError, match="ends too early"):
        _json.members(document)


def test_what_python_cannot_hold_is_an_error_and_stays_readable_as_bytes() -> None:
    digits = b"9" * 5000
    result = CallResult(b'{"result":{"n":' + digits + b"}}")
    with pytest.raises(ProtocolError, match="cannot decode") as caught:
        result.data  # noqa: B018
    assert caught.value.stage == "decode"
    assert result.raw == b'{"n":' + digits + b"}"

    deep = b"[" * 100_000 + b"]" * 100_000
    result = CallResult(b'{"result":' + deep + b"}")
    with pytest.raises(ProtocolError):
        result.data  # noqa: B018
    assert result.raw == deep


def test_encode_is_compact_utf8_and_refuses_what_json_has_no_form_for() -> None:
    assert _json.encode({"a": [1, "\u2603"]}) == '{"a":[1,"\u2603"]}'.encode()
    with pytest.raises(ValueError, match="Out of range"):
        _json.encode({"a": float("nan")})
    with pytest.raises(TypeError):
        _json.encode({"a": object()})


def test_half_a_pair_is_written_as_its_escape() -> None:
    assert not _json.holds_half_pairs({"a": "é😀"}) and not _json.holds_half_pairs(object())
    assert _json.holds_half_pairs({"a": ["\ud800"]}) and _json.holds_half_pairs('"\ud800"')
    assert _json.written('{"é😀": "\ud800"}') == '{"é😀": "\\ud800"}'
    assert json.loads(_json.written({"é😀": "\ud800"})) == {"é😀": "\ud800"}

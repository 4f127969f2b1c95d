"""JSON in and out, and the cutting of exact bytes out of a document."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, Mapping, Tuple, cast

from ._errors import InvalidRequestError, ProtocolError



def _plain(value: object) -> Any:
    """Any mapping is an object; the encoder itself knows only dicts."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
_ascii_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain)
_MARK = re.compile(rb'["\[\]{},:]')
_OPEN = b"[{"
_CLOSE = b"]}"


def encode(value: object) -> bytes:
    """Compact UTF-8. Raises :class:`InvalidRequestError` for what JSON has no form for."""
    try:
        return _encoder.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as err:
        raise InvalidRequestError(f"this cannot be written as JSON: {err}") from err


def holds_half_pairs(value: object) -> bool:
    """Whether there is half a surrogate pair in a text, as ``json.loads`` makes of such an escape. It has no UTF-8."""
    try:
        (value if isinstance(value, str) else _encoder.encode(value)).encode("utf-8")
    except UnicodeEncodeError:
        return True
    except (TypeError, ValueError, RecursionError):
        pass  # encode says it
    return False


def written(value: object) -> str:
    """JSON text in which half a pair is the escape that it came from. A string is JSON text already."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else _ascii_encoder.encode(value)


def decode(data: bytes) -> Any:
    """The document as Python values.

    The library has checked the syntax, but not that Python can hold it: integers beyond the interpreter's digit limit
    and deep nesting are a :class:`ProtocolError`. The raw bytes are still to be had.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise ProtocolError(
            f"Python cannot decode what the server sent ({err}); its bytes are in the raw attribute.", stage="decode"
        ) from err


def members(data: bytes) -> Dict[str, bytes]:
    """The members of the object ``data``, each value as the exact bytes it has there."""
    spans = list(_children(data))
    return {json.loads(data[k:l]): data[v:w] for (k, l), (v, w) in zip(spans[::2], spans[1::2])}


def elements(data: bytes) -> "list[bytes]":
    """The elements of the array ``data`` as exact bytes."""
    return [data[i:j] for i, j in _children(data)]


def _children(data: bytes) -> Iterator[Tuple[int, int]]:
    """The trimmed spans of what lies directly in the outermost array or object: elements, or keys and values in turn.

    Only structure is looked at, so that ten megabytes in one string cost one search for its closing quote.
    """
    depth = 0
    start = pos = 0
    while True:
        mark = _MARK.search(data, pos)
        if mark is None:
            raise ProtocolError("a JSON document of the library ends too early.", stage="decode")
        at, pos = mark.span()
        char = data[at]
        if char == 0x22:
            pos = _string_end(data, pos)
        elif char in _OPEN:
            depth += 1
            if depth == 1:
                start = pos
        elif char in _CLOSE:
            depth -= 1
            if depth == 0:
                span = _trim(data, start, at)
                if span[0] < span[1]:
                    yield span
                return
        elif depth == 1:
            yield _trim(data, start, at)
            start = pos


def _string_end(data: bytes, pos: int) -> int:
    """The index after the quote that ends the string whose first byte is at ``pos``."""
    while True:
        quote = data.find(b'"', pos)
        if quote < 0:
            raise ProtocolError("a JSON document of the library ends too early.", stage="decode")
        run = quote
        while run > pos and data[run - 1] == 0x5C:
            run -= 1
        pos = quote + 1
        if (quote - run) % 2 == 0:
            return pos


def _trim(data: bytes, start: int, end: int) -> Tuple[int, int]:
    while start < end and data[start] in b" \t\r\n":
        start += 1
    while end > start and data[end - 1] in b" \t\r\n":
        end -= 1
    return start, end

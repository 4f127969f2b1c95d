"""What a program gives is checked here, so that a mistake is an :class:`InvalidRequestError` whose sentence names the
argument. What only the library can judge is left to it.
"""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, cast

from ._errors import InvalidRequestError


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """The argument, empty for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"{name} must be a mapping, not {value!r}")
    return cast("Mapping[str, Any]", value)


def function(name: str, value: Any) -> None:
    """None is allowed: nobody listens."""
    if value is not None and not callable(value):
        raise InvalidRequestError(f"{name} must be a function, not {value!r}")


def handlers(value: Any) -> Mapping[str, Any]:
    """``on_request``: what the library does not know as a kind of request it refuses itself."""
    checked = mapping("on_request", value)
    for kind, handler in checked.items():
        if not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequestError(f"the names in on_request must be strings, not {kind!r}")
        if not callable(handler):
            raise InvalidRequestError(f"on_request[{kind!r}] must be a function, not {handler!r}")
    return checked


def names(name: str, value: Optional[Iterable[Any]]) -> Optional[List[Any]]:
    """A list of any kind; one string is a mistake that Python itself would take for a list of letters."""
    if value is None:
        return None
    if isinstance(value, (str, bytes)):
        raise InvalidRequestError(f"{name} must be a list, not one string: [{value!r}]")
    try:
        return list(value)
    except TypeError:
        raise InvalidRequestError(f"{name} must be a list, not {value!r}") from None

"""What others build on: every public name with its signature, kept in api.txt, and what ``help()`` says of it.

A change of api.txt is a change for them: ``make api`` writes it again, and the diff of the commit shows it.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
import typing
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
from typing_extensions import get_overloads

import mcprt
from mcprt import _options

SNAPSHOT = Path(__file__).with_name("api.txt")

#: Named in annotations and docstrings of public names, though not exported themselves.
NESTED = [value for name, value in vars(_options).items() if name.endswith(("Options", "Policy", "Info")) and name[0] != "_"]


def public() -> Dict[str, Any]:
    names = {name: getattr(mcprt, name) for name in mcprt.__all__ if name != "__version__"}
    names.update((cls.__name__, cls) for cls in NESTED)
    return dict(sorted(names.items()))


def own_members(cls: type) -> Iterator[Tuple[str, Any]]:
    """What the class itself defines for others, special methods that are part of its use included."""
    used = {"__init__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__", "__next__", "__aiter__", "__anext__"}
    for name, value in sorted(vars(cls).items()):
        if name in used or not name.startswith("_"):
            yield name, value


def attributes(cls: type) -> List[str]:
    """What ``__init__`` sets for others to read; ``inspect`` does not know it."""
    if "__init__" not in vars(cls):
        return []
    tree = ast.parse(textwrap.dedent(inspect.getsource(vars(cls)["__init__"])))
    found = [
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    ]
    return sorted({name for name in found if not name.startswith("_")})


def is_typed_dict(value: Any) -> bool:
    return isinstance(value, type) and typing.is_typeddict(value)


def fields(cls: Any) -> Dict[str, str]:
    """Those of a TypedDict, with their types as they are written."""
    return {name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in cls.__annotations__.items()}


def describe(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, type):
        yield f"def {name}{inspect.signature(value)}"
        return
    if is_typed_dict(value):
        yield f"class {name}(TypedDict)"
        yield from (f"    {field}: {kind}" for field, kind in fields(value).items())
        return
    yield f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
    yield from (f"    .{attribute}" for attribute in attributes(value))
    for member, found in own_members(value):
        if isinstance(found, (property, cached_property)):
            getter = found.fget if isinstance(found, property) else found.func
            yield f"    {member} -> {inspect.signature(getter).return_annotation}"  # type: ignore[arg-type]
        elif isinstance(found, classmethod):
            yield f"    classmethod {member}{inspect.signature(found.__func__)}"
        elif inspect.isfunction(found):
            kind = "async def" if inspect.iscoroutinefunction(found) else "def"
            overloads = get_overloads(found) or [found]
            yield from (f"    {kind} {member}{inspect.signature(form)}" for form in overloads)
        elif not isinstance(found, type(vars(mcprt.Event)["raw"])):  # a slot is in attributes already
            yield f"    {member} = {found!r}"


def test_the_public_api_is_the_one_that_is_kept() -> None:
    api = "".join(line + "\n" for name, value in public().items() for line in describe(name, value))
    if os.environ.get("MCPRT_UPDATE_API"):
        SNAPSHOT.write_text(api)
    assert api == SNAPSHOT.read_text(), "if this change is meant, run 'make api' and say it in CHANGELOG.md"


def test_all_lists_what_there_is() -> None:
    here = {name for name, value in vars(mcprt).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert here == {name for name in mcprt.__all__ if name != "__version__"}
    assert len(set(mcprt.__all__)) == len(mcprt.__all__)


@pytest.mark.parametrize("name", public())
def test_help_has_something_to_say(name: str) -> None:
    value = public()[name]
    doc = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    assert doc and len(doc) > 15, f"{name} has no docstring of its own"
    if is_typed_dict(value):
        for field in fields(value):
            assert f"``{field}``" in doc, f"the docstring of {name} does not say what {field} is"
        return
    if not isinstance(value, type):
        return
    for attribute in attributes(value):
        assert f"``{attribute}``" in doc, f"the docstring of {name} does not say what {attribute} is"
    for member, found in own_members(value):
        if member.startswith("__") or isinstance(found, str) or not (callable(found) or hasattr(found, "__doc__")):
            continue
        if isinstance(found, (property, cached_property, classmethod)) or inspect.isfunction(found):
            assert found.__doc__ and len(found.__doc__) > 10, f"{name}.{member} has no docstring"
    if value.__bases__ == (tuple,) and hasattr(value, "_fields"):
        for field in value._fields:
            assert f"``{field}``" in doc, f"the docstring of {name} does not say what {field} is"


def test_the_parameters_of_the_verbs_are_explained() -> None:
    """Each by its name; a name such as ``server`` says all by itself."""
    plain = {"self", "server", "name", "keywords"}
    for method, found in own_members(mcprt.Runtime):
        if not inspect.isfunction(found):
            continue
        said = (mcprt.Runtime.__doc__ or "") + (found.__doc__ or "")
        if found.__name__ == "connect":
            said += mcprt.Options.__doc__ or ""
        for parameter in inspect.signature(found).parameters.values():
            if parameter.name in plain or parameter.name == "_" or method.startswith("__") and method != "__init__":
                continue
            assert re.search(rf"\b{parameter.name}\b", said), f"nothing says what {method}({parameter.name}) is"


def test_the_verbs_of_both_runtimes_are_the_same_and_say_the_same() -> None:
    def verbs(cls: type) -> Dict[str, Any]:
        return {name: found for name, found in own_members(cls) if not name.startswith("__") and inspect.isfunction(found)}

    blocking, awaited = verbs(mcprt.Runtime), verbs(mcprt.AsyncRuntime)
    assert set(blocking) == set(awaited)
    for name, method in blocking.items():
        if name in ("close", "events"):
            continue
        assert inspect.signature(method) == inspect.signature(awaited[name]), name
        assert method.__doc__ == awaited[name].__doc__, name

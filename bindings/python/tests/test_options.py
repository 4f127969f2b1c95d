"""From Python's names and units to the C API's."""

from __future__ import annotations

import json
import math
import re
import os
import typing
from pathlib import Path
from typing import Any, Dict

import pytest

import mcprt
from mcprt import _operations, _options
from mcprt._options import encode_options

from .conftest import ROOT


def put(**keywords: Any) -> Dict[str, Any]:
    decoded: Dict[str, Any] = json.loads(encode_options({"env": {}, **keywords}, None, []))
    del decoded["env"]
    return decoded


def test_names_and_units() -> None:
    assert put(
        startup_timeout=0.25,
        timeout=math.inf,
        grace=0,
        project_trust="always",
        cache={"dir": Path("/c"), "ttl": 60, "enabled": True},
        discovery={"project": True, "files": [Path("/a.json")], "filter_exa": True},
        limits={"message_bytes": 1},
        auth={"client_metadata_url": "u"},
        env_policy={"allow": ["LC_*"]},
        spill=None,
        runtime={"max_procs": 2},
    ) == {
        "startupTimeoutMs": 250,
        "timeoutMs": 0,
        "graceMs": 0,
        "projectTrust": "always",
        "cache": {"dir": "/c", "ttlMs": 60000, "enabled": True},
        "discovery": {"project": True, "files": ["/a.json"], "filterExa": True},
        "limits": {"messageBytes": 1},
        "auth": {"clientMetadataUrl": "u"},
        "envPolicy": {"allow": ["LC_*"]},
        "spill": None,
        "runtime": {"maxProcs": 2},
    }


def test_paths_are_absolute_and_server_configs_untouched() -> None:
    config = {"demo": {"command": "x", "timeoutMs": 5, "env": {"A_B": "c"}}}
    assert put(cwd=Path("sub"), servers=config) == {"cwd": os.path.join(os.getcwd(), "sub"), "servers": config}


def test_every_typed_option_has_a_field_and_no_field_is_untyped() -> None:
    def compare(typed: Any, fields: Dict[str, _options._Field]) -> int:
        assert set(typed.__annotations__) == set(fields)
        return len(fields)

    count = compare(_options.Options, _options._FIELDS)
    nested = {
        "discovery": _options.DiscoveryOptions,
        "cache": _options.CacheOptions,
        "tool_names": _options.ToolNameOptions,
        "limits": _options.LimitOptions,
        "auth": _options.AuthOptions,
        "spill": _options.SpillOptions,
        "trace": _options.TraceOptions,
        "runtime": _options.GoRuntimeOptions,
    }
    for name, typed in nested.items():
        count += compare(typed, _options._FIELDS[name]._inside)
    assert count > 60
    assert {name for name, field in _options._FIELDS.items() if field._inside} == set(nested)


@pytest.mark.parametrize(
    ("keywords", "named"), [({"cdw": "."}, "'cdw'"), ({"cache": {"dri": "."}}, "'cache.dri'"), ({"timeoutMs": 1}, "'t")]
)
def test_unknown_option_is_named(keywords: Dict[str, Any], named: str) -> None:
    with pytest.raises(TypeError, match=f"unknown option {named}"):
        mcprt.Runtime(**keywords)


@pytest.mark.parametrize(
    ("keywords", "meant"),
    [
        ({"project_trst": "always"}, "'project_trust'"),
        ({"projectTrust": "always"}, "'project_trust'"),
        ({"startupTimeoutMs": 1}, "'startup_timeout'"),
        ({"cache": {"ttlMs": 1}}, "'cache.ttl'"),
    ],
)
def test_the_option_that_was_meant_is_named(keywords: Dict[str, Any], meant: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"did you mean {meant}?")):
        mcprt.Runtime(**keywords)


@pytest.mark.parametrize("timeout", ["5", None, True])
def test_a_duration_is_a_number(timeout: Any) -> None:
    for option in ("timeout", "grace"):
        with pytest.raises(TypeError, match=re.escape(f"a duration is a number of seconds, not {timeout!r}")):
            put(**{option: timeout})


@pytest.mark.parametrize("timeout", [0, -1, math.nan, -math.inf])
def test_a_timeout_is_above_zero(timeout: float) -> None:
    with pytest.raises(ValueError, match="must be more than 0 seconds"):
        put(timeout=timeout)
    with pytest.raises(ValueError, match="must be more than 0 seconds"):
        _operations.call("t", None, None, timeout, False, None, None)


@pytest.mark.parametrize("grace", [-1, math.nan, math.inf])
def test_a_duration_is_finite(grace: float) -> None:
    with pytest.raises(ValueError, match="0 seconds or more"):
        put(grace=grace)


def test_tiny_timeouts_do_not_become_unlimited() -> None:
    assert put(timeout=1e-9) == {"timeoutMs": 1}


def test_the_environment_of_now_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPRT_TEST_NOW", "yes")
    assert json.loads(encode_options({}, None, []))["env"]["MCPRT_TEST_NOW"] == "yes"
    assert json.loads(encode_options({"env": {"A": "b"}}, None, []))["env"] == {"A": "b"}


def test_an_environment_that_is_not_utf8_is_passed_with_replacements() -> None:
    value = b"/ok:/caf\xe9".decode("utf-8", "surrogateescape")
    assert json.loads(encode_options({"env": {"PATH": value}}, None, []))["env"] == {"PATH": "/ok:/caf\ufffd"}


@pytest.mark.parametrize(
    "option",
    [lambda p: {"cwd": p}, lambda p: {"cache": {"dir": p}}, lambda p: {"trace": {"file": p}}, lambda p: {"discovery": {"files": [p]}}],
)
def test_a_path_that_is_not_utf8_is_named(option: Any) -> None:
    path = b"/caf\xe9".decode("utf-8", "surrogateescape")
    with pytest.raises(mcprt.InvalidRequestError, match=r"^a path must be UTF-8, which '/caf\\udce9' is not"):
        encode_options(option(path), None, [])


def test_raw_options_win_and_answers_come_from_the_handlers() -> None:
    encoded = json.loads(encode_options({"env": {}, "lazy": True}, {"lazy": False, "newThing": 1}, ["elicitation"]))
    assert encoded == {"env": {}, "lazy": False, "newThing": 1, "answers": ["elicitation"]}


def test_one_string_is_no_list_of_names() -> None:
    with pytest.raises(TypeError, match=r"\['demo'\]"):
        _operations.connect("demo", None, None, None, None, None, None, False, True)


def test_what_is_left_of_a_timeout_is_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = _operations.call("t", None, None, 2.0, False, None, None)
    assert json.loads(operation.encode())["timeoutMs"] == 2000
    monkeypatch.setattr("time.monotonic", lambda: 101.5)
    assert json.loads(operation.encode_after(100.0))["timeoutMs"] == 500
    assert json.loads(operation.encode_after(0.0))["timeoutMs"] == 1
    monkeypatch.setattr("time.monotonic", lambda: 100.0009)
    assert json.loads(operation.encode_after(100.0))["timeoutMs"] == 2000  # a timeout is late rather than early
    unlimited = _operations.call("t", None, None, math.inf, False, None, None)
    assert json.loads(unlimited.encode_after(0.0))["timeoutMs"] == 0
    assert typing.cast(Any, json.loads(operation.encode())) == {"tool": "t", "arguments": {}, "timeoutMs": 2000}


def test_options_that_are_one_of_some_words_are_typed_with_just_these() -> None:
    core = (ROOT / "core" / "options.go").read_text()
    source = Path(_options.__file__).read_text()
    words = re.findall(r'r\.word\("(\w+)", [^,]+, (.*)\)$', core, re.M)
    assert len(words) > 7
    for name, listed in words:
        typed = re.search(rf"^    {_options._snake(name)}: Literal\[(.*)\]$", source, re.M)
        assert typed is not None, name
        assert set(re.findall(r'"(\w+)"', typed[1])) == set(re.findall(r'"(\w+)"', listed)), name

"""Calls every public server of mcp.json through the Python package."""

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List

import mcprt
import pytest

HERE = Path(__file__).resolve().parent
CASES: List[Dict[str, Any]] = json.loads((HERE / "cases.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mcprt.Runtime]:
    project = tmp_path_factory.mktemp("project")
    subprocess.run([HERE / "project.sh", project], check=True)
    env = {**os.environ, "TESTSERVERS": str(HERE), "TESTPROJECT": str(project)}
    with mcprt.Runtime(
        cwd=str(project),
        env=env,
        project_trust="always",
        discovery={"user": "none"},
        cache={"dir": str(project / "cache")},
        startup_timeout=math.inf,
        timeout=120,
    ) as rt:
        report = rt.connect()
        assert not report.errors, {name: str(error) for name, error in report.errors.items()}
        assert sorted(report.connected) == sorted({case["server"] for case in CASES})
        yield rt


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['server']}-{case['tool']}-{case['isError']}")
def test_call(runtime: mcprt.Runtime, case: Dict[str, Any]) -> None:
    result = runtime.call(case["tool"], case["arguments"], server=case["server"])
    assert case["text"] in result.text
    assert result.is_error is case["isError"]
    assert json.loads(result.raw)["content"] == result.content


def test_every_tool_is_live(runtime: mcprt.Runtime) -> None:
    tools = runtime.list()
    assert {tool.server for tool in tools} == {case["server"] for case in CASES}
    assert not [tool.name for tool in tools if tool.deferred or not tool.input_schema]

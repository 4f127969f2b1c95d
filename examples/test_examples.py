"""Runs what a newcomer copies: the programs in README.md and the demo."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def run(command: List[str], cwd: Path, **env: str) -> str:
    """What the command printed; it must succeed and say nothing on stderr."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    server = {"command": str(BUILD / "mcprt"), "args": ["demo-server"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": server}}))
    return tmp_path


@pytest.fixture
def home(tmp_path: Path) -> Dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def program(language: str) -> str:
    """The one program in this language that README.md shows."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    return found


def test_readme_python(project: Path, home: Dict[str, str]) -> None:
    (project / "program.py").write_text(program("python"))
    shown = run([str(ROOT / ".venv/bin/python"), "program.py"], project, PYTHONPATH=str(ROOT / "bindings/python/src"), **home)
    assert shown.endswith("\nhi\n") and "mcp_demo_add" in shown


def test_readme_node(project: Path, home: Dict[str, str]) -> None:
    (project / "program.mjs").write_text(program("js"))
    (project / "node_modules").mkdir()
    (project / "node_modules/mcprt").symlink_to(ROOT / "bindings/node")
    shown = run(["node", "program.mjs"], project, **home)
    assert shown.endswith("\nhi\n") and "mcp_demo_add" in shown


def test_readme_c(project: Path, home: Dict[str, str]) -> None:
    (project / "program.c").write_text(program("c"))
    (command,) = re.findall(r"^    (cc agent\.c .*) -o agent && \./agent$", (ROOT / "README.md").read_text("utf-8"), re.M)
    words = command.replace("$MCPRT", str(ROOT)).replace("agent.c", "program.c").split()
    run([*words, "-Wall", "-Werror", "-o", "program"], project)
    report, reply = map(json.loads, run(["./program"], project, **home).splitlines())
    assert report["connected"] == ["demo"]
    assert reply["result"]["content"] == [{"type": "text", "text": "hi"}]


def steps(text: str) -> Dict[str, List[str]]:
    """The demo's lines by their title; a line without one belongs to the title before it."""
    found: Dict[str, List[str]] = {}
    title = ""
    for line in filter(None, text.splitlines()):
        title = line[2:11].strip() or title
        found.setdefault(title, []).append(re.sub(r" +", " ", line[12:]))
    return found


@pytest.mark.parametrize("language", ["C", "Python", "Node"])
def test_demo(language: str) -> None:
    shown = run([str(ROOT / "examples/demo.sh"), language], ROOT, PYTHON=str(ROOT / ".venv/bin/python"))
    assert "\x1b" not in shown
    _, cold, warm = re.split(rf"^{language}, (?:cold|warm) cache$", shown, flags=re.M)
    for text, tools in ((cold, "10 live, 0 deferred"), (warm, "5 live, 5 deferred")):
        demo = steps(text)
        assert demo["discover"][0] == "3 servers"
        assert demo["tools"][0] == tools
        assert "DEMO_TOKEN is not set" in demo["broken"][0]
        assert " -> 42 " in demo["call"][0] and " -> worth the wait " in demo["call"][1]
        assert demo["reload"] == ["kept demo slow, changed broken"]
    took = {name: int(steps(text)["connect"][0].split()[0]) for name, text in (("cold", cold), ("warm", warm))}
    assert took["cold"] >= 3000 and 250 <= took["warm"] < 2000, took
    # The deferred call waits for its server, which needs 3 s in all.
    assert int(steps(warm)["call"][1].split()[-2]) > 1000

"""The wheel of dist/, installed into an empty venv: what it claims, what it holds, and a tool called from it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import mcprt, sys
servers = {"demo": {"command": sys.argv[1], "args": ["demo-server"]}}
with mcprt.Runtime(cwd=".", servers=servers, project_trust="always") as rt:
    print(mcprt.__file__)
    rt.connect()
    print(rt.call("mcp_demo_echo", {"text": "from the wheel"}, timeout=20).text)
"""

@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = Path(os.environ["MCPRT_DIST"]).glob("mcprt-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", wheel], check=True)
    return venv


def run(venv: Path, *args: str) -> str:
    environ = {k: v for k, v in os.environ.items() if k not in ("MCPRT_LIBRARY", "PYTHONPATH")}
    environ["HOME"] = str(venv.parent)
    done = subprocess.run([venv / "bin/python", *args], cwd=venv.parent, env=environ, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tag_is_what_the_library_needs(wheel: Path, installed: Path) -> None:
    (library,) = installed.glob("lib/python*/site-packages/mcprt/libmcprt.so.0")
    symbols = subprocess.run(["objdump", "-T", library], check=True, text=True, capture_output=True).stdout
    major, minor = max((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols))
    assert f"-py3-none-manylinux_{major}_{minor}_" in wheel.name
    assert f"glibc {major}.{minor} or newer" in (ROOT / "bindings/python/README.md").read_text()


def test_tool_is_called_from_the_wheel(installed: Path) -> None:
    (tool,) = installed.glob("lib/python*/site-packages/mcprt/_bin/mcprt")
    where, text = run(installed, "-c", PROGRAM, str(tool)).splitlines()
    assert where.startswith(str(installed))
    assert "from the wheel" in text


def test_module_runs_the_command_line_tool(installed: Path) -> None:
    assert isinstance(json.loads(run(installed, "-m", "mcprt", "discover", "--json")), (dict, list))


MUSL = """
import os, sys
def no_glibc(name): raise ValueError(name)
os.confstr = no_glibc
""" + PROGRAM


def test_the_wheel_for_musl_has_the_tool_alone_and_works_through_it(wheel: Path, tmp_path: Path) -> None:
    (musl,) = (wheel.parent / "musl").glob("mcprt-*musllinux_1_1_*.whl")
    site = tmp_path / "site"
    platform_ = musl.stem.split("-")[-1]
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([*install, "--platform", platform_, "--target", site, musl], check=True)
    tool = site / "mcprt" / "_bin" / "mcprt"
    assert tool.exists() and not list(site.rglob("libmcprt*"))
    assert "statically linked" in subprocess.run(["file", tool], check=True, text=True, capture_output=True).stdout
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MCPRT_")}
    environ.update(HOME=str(tmp_path), PYTHONPATH=str(site))
    done = subprocess.run([sys.executable, "-c", MUSL, str(tool)], cwd=tmp_path, env=environ, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "from the wheel" in done.stdout and str(site) in done.stdout

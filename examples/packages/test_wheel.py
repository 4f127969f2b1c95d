"""The wheel of dist/, installed into an empty venv: the README's examples as they are printed, what its tag claims, what it
holds; and the sdist, with and without a library."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Dict

import pytest
from readme import ROOT, blocks

README = "bindings/python/README.md"
DIST = ROOT / "dist"
BUILT = ROOT / "build/libmcprt.so.0"


@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = DIST.glob("mcprt-*.whl")
    return found


@pytest.fixture(scope="module")
def sdist() -> Path:
    (found,) = DIST.glob("mcprt-*.tar.gz")
    return found


def environment(home: Path) -> Dict[str, str]:
    """Of somebody who has nothing of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCPRT_", "PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config")}


def shell(text: str, cwd: Path, environ: Dict[str, str]) -> str:
    done = subprocess.run(["bash", "-euc", text], cwd=cwd, env=environ, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody has after the README's first steps."""
    folder = tmp_path_factory.mktemp("project")
    environ = environment(folder)
    shell(blocks(README, "sh")[0], folder, {**environ, "PATH": f"{Path(sys.base_prefix) / 'bin'}:{environ['PATH']}"})
    (folder / ".mcp.json").write_text(blocks(README, "json")[0])
    return folder


def activated(text: str, project: Path) -> str:
    """Runs commands in the shell that the first steps left: the venv is active in it."""
    return shell(f". .venv/bin/activate\n{text}", project, environment(project))


def test_readme_as_printed(project: Path) -> None:
    (project / "agent.py").write_text(blocks(README, "python")[0])
    shown = activated(blocks(README, "sh")[1], project)
    assert "'mcp_demo_echo'" in shown and shown.endswith("\nhi\n42\n")


def test_every_program_of_the_readme_runs(project: Path) -> None:
    for i, text in enumerate(blocks(README, "python")):
        (project / f"program{i}.py").write_text(text)
        assert activated(f"python -W error program{i}.py", project).endswith("hi\n")


def test_tag_is_what_the_library_needs(wheel: Path, project: Path) -> None:
    (library,) = project.glob(".venv/lib/python*/site-packages/mcprt/libmcprt.so.0")
    symbols = subprocess.run(["objdump", "-T", library], check=True, text=True, capture_output=True).stdout
    major, minor = max((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols))
    header = subprocess.run(["readelf", "-h", library], check=True, text=True, capture_output=True).stdout
    (machine,) = [name for word, name in (("X86-64", "x86_64"), ("AArch64", "aarch64")) if word in header]
    assert wheel.name.endswith(f"-py3-none-manylinux_{major}_{minor}_{machine}.whl")
    for readme in (README, "bindings/node/README.md", "README.md"):
        assert f"glibc {major}.{minor} or newer" in " ".join((ROOT / readme).read_text().split()), readme


def test_the_packages_of_all_languages_hold_the_same(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.read("mcprt/libmcprt.so.0") == BUILT.read_bytes()
        assert archive.read("mcprt/_bin/mcprt") == (ROOT / "build/mcprt").read_bytes()
    for wanted in ("mcprt/py.typed", "licenses/LICENSE"):
        assert any(name.endswith(wanted) for name in names), wanted
    assert not [name for name in names if "test" in name or "hatch" in name]


def test_module_runs_the_command_line_tool(project: Path) -> None:
    assert isinstance(json.loads(activated("python -m mcprt discover --json", project)), dict)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """With what builds a source package, from this tree's own environment: nothing is fetched."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (ours,) = [path for path in sys.path if path.endswith("site-packages")]
    (site / "build-tools.pth").write_text(ours)
    return venv


def install(venv: Path, sdist: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    command = [venv / "bin/python", "-m", "pip", "install", "--no-index", "--no-build-isolation", "--disable-pip-version-check", sdist]
    return subprocess.run(command, env={**environment(venv.parent), **environ}, text=True, capture_output=True, timeout=120)


def test_sdist_without_a_library_says_what_to_do(venv: Path, sdist: Path, tmp_path: Path) -> None:
    done = install(venv, sdist)
    assert done.returncode != 0
    assert "the source package of mcprt has no library inside: build one ('make build' in a checkout of mcprt), set MCPRT_LIBRARY" in done.stderr
    done = install(venv, sdist, MCPRT_LIBRARY=str(tmp_path / "nothing.so"))
    assert f"MCPRT_LIBRARY names {tmp_path / 'nothing.so'}, but there is no such file." in done.stderr
    (tmp_path / "text.so").write_text("no library")
    assert "it is not a library built for Linux with glibc" in install(venv, sdist, MCPRT_LIBRARY=str(tmp_path / "text.so")).stderr


def test_sdist_takes_the_library_that_is_named(venv: Path, sdist: Path, tmp_path: Path) -> None:
    done = install(venv, sdist, MCPRT_LIBRARY=str(BUILT))
    assert done.returncode == 0, done.stderr
    (tmp_path / ".mcp.json").write_text(blocks(README, "json")[0])
    (tmp_path / "agent.py").write_text(blocks(README, "python")[0])
    environ = environment(tmp_path)
    shown = shell("venv/bin/python agent.py", tmp_path, {**environ, "PATH": f"{venv / 'bin'}:{environ['PATH']}"})
    assert shown.endswith("\nhi\n")


MUSL = """
import os, sys, mcprt
def no_glibc(name): raise ValueError(name)
os.confstr = no_glibc
with mcprt.Runtime(cwd=".", project_trust="always", servers={"demo": {"command": sys.argv[1], "args": ["demo-server"]}}) as rt:
    rt.connect()
    print(mcprt.__file__, rt.call("mcp_demo_echo", {"text": "from the wheel"}, timeout=20).text)
"""


def test_the_wheel_for_musl_has_the_tool_alone_and_works_through_it(wheel: Path, tmp_path: Path) -> None:
    (musl,) = (wheel.parent / "musl").glob("mcprt-*.whl")
    assert "-py3-none-musllinux_1_1_" in musl.name
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([*command, "--platform", musl.stem.split("-")[-1], "--target", site, musl], check=True)
    tool = site / "mcprt" / "_bin" / "mcprt"
    assert tool.exists() and not list(site.rglob("libmcprt*"))
    headers = subprocess.run(["readelf", "-l", tool], check=True, text=True, capture_output=True).stdout
    assert "LOAD" in headers and "INTERP" not in headers  # static
    environ = {**environment(tmp_path), "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", MUSL, str(tool)], cwd=tmp_path, env=environ, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "from the wheel" in done.stdout and str(site) in done.stdout

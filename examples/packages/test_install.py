"""`make install` into an empty prefix: the README's C program as it is printed, by pkg-config and by CMake, the examples, the
tool, its completions and manual pages; and `make uninstall`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Set

import pytest
from readme import ROOT, blocks

README = "README.md"
VERSION = ".".join(re.findall(r"^#define MCPRT_VERSION_\w+ (\d+)$", (ROOT / "include/mcprt.h").read_text(), re.M))


def run(command: List[str], cwd: Path, environ: Dict[str, str]) -> str:
    done = subprocess.run(command, cwd=cwd, env=environ, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(folder: Path) -> Set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def make(target: str, **variables: object) -> None:
    words = [f"{name}={value}" for name, value in variables.items()]
    subprocess.run(["make", "-s", "-C", ROOT, target, *words], check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix") / "usr"
    make("install", PREFIX=folder)
    return folder


@pytest.fixture
def environ(prefix: Path, tmp_path: Path) -> Dict[str, str]:
    """As after `ldconfig`, with an empty home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCPRT_", "LD_"))}
    return {
        **kept,
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PATH": f"{prefix / 'bin'}:{kept['PATH']}",
        "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"),
        "LD_LIBRARY_PATH": str(prefix / "lib"),
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": {"command": "mcprt", "args": ["demo-server"]}}}))
    (program,) = blocks(README, "c")
    (folder / "agent.c").write_text(program)
    return folder


def check_agent(shown: str) -> None:
    report, reply = map(json.loads, shown.splitlines())
    assert "mcp_demo_echo" in [tool["name"] for tool in report["tools"]]
    assert reply["result"]["content"] == [{"type": "text", "text": "hi"}]


def test_readme_as_printed(project: Path, environ: Dict[str, str]) -> None:
    (compile_line,) = [block for block in blocks(README, "sh") if "pkg-config" in block]
    run(["bash", "-euc", compile_line], project, environ)
    check_agent(run(["./agent"], project, environ))


def test_cmake(prefix: Path, project: Path, environ: Dict[str, str]) -> None:
    (text,) = blocks(README, "cmake")
    (project / "CMakeLists.txt").write_text(text)
    environ = {name: value for name, value in environ.items() if name != "LD_LIBRARY_PATH"}  # CMake sets the run path
    run(["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}"], project, environ)
    run(["cmake", "--build", "build"], project, environ)
    check_agent(run(["build/agent"], project, environ))


@pytest.mark.parametrize(
    ("wanted", "found"), [("", True), ("0.1", True), (VERSION, True), (f"{VERSION} EXACT", True), ("0.0", False), ("0.2", False), ("1.0", False), ("0.1.99", False)]
)
def test_cmake_versions(wanted: str, found: bool, prefix: Path, tmp_path: Path, environ: Dict[str, str]) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(x C)\nfind_package(mcprt {wanted} QUIET)\n"
        'file(WRITE found "${mcprt_FOUND} ${mcprt_VERSION}")\n'
    )
    run(["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}"], tmp_path, environ)
    assert (tmp_path / "found").read_text().startswith(f"1 {VERSION}" if found else "0") is True


def test_the_folder_may_be_moved(prefix: Path, project: Path, environ: Dict[str, str], tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(prefix, moved, symlinks=True)
    (project / "CMakeLists.txt").write_text(blocks(README, "cmake")[0])
    run(["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={moved}"], project, environ)
    run(["cmake", "--build", "build"], project, environ)
    assert f"{moved}/lib" in run(["readelf", "-d", "build/agent"], project, environ)
    (moved / "include/mcprt.h").unlink()
    said = subprocess.run(["cmake", "-S", ".", "-B", "other", f"-DCMAKE_PREFIX_PATH={moved}"], cwd=project, env=environ, text=True, capture_output=True)
    assert said.returncode != 0 and "mcprt.h does not" in " ".join(said.stderr.split())


def test_library_has_its_soname_and_links(prefix: Path, environ: Dict[str, str]) -> None:
    lib = prefix / "lib"
    assert os.readlink(lib / "libmcprt.so") == "libmcprt.so.0"
    assert os.readlink(lib / "libmcprt.so.0") == f"libmcprt.so.{VERSION}"
    assert "Library soname: [libmcprt.so.0]" in run(["readelf", "-d", str(lib / "libmcprt.so")], prefix, environ)
    assert run(["pkg-config", "--modversion", "mcprt"], prefix, environ).strip() == VERSION


def test_examples_compile_with_one_line_and_run_with_another(prefix: Path, project: Path, environ: Dict[str, str]) -> None:
    examples = prefix / "share/doc/mcprt/examples"
    programs = list(examples.glob("*.c"))
    assert programs

    def config(*broken: str) -> str:
        commands = {"demo": [], "slow": ["--start-delay", "1s"], "broken": broken}
        return json.dumps({"mcpServers": {name: {"command": "mcprt", "args": ["demo-server", *args]} for name, args in commands.items()}})

    (project / ".mcp.json").write_text(config("--fail-start", "it is broken"))
    (project / "next.mcp.json").write_text(config("--name", "mended"))
    for program in programs:
        run(["bash", "-euc", f"cc -Wall -Wextra -Werror {program} $(pkg-config --cflags --libs mcprt) -o {program.stem}"], project, environ)
        assert "mcp_demo_add" in run([f"./{program.stem}"], project, environ)


def test_tool_completions_and_manual(prefix: Path, project: Path, environ: Dict[str, str]) -> None:
    assert VERSION in run(["mcprt", "version"], project, environ)
    completions = {
        "bash": prefix / "share/bash-completion/completions/mcprt",
        "zsh": prefix / "share/zsh/site-functions/_mcprt",
        "fish": prefix / "share/fish/vendor_completions.d/mcprt.fish",
    }
    assert completions["zsh"].read_text().startswith("#compdef mcprt\n")
    for shell, path in completions.items():
        if shutil.which(shell):
            run([shell, "-n", str(path)], project, environ)
    script = f"""
      source {completions["bash"]}
      _get_comp_words_by_ref() {{ cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words=("${{COMP_WORDS[@]}}") cword=$COMP_CWORD; }}
      compopt() {{ :; }}
      COMP_WORDS=(mcprt dis) COMP_CWORD=1 COMP_LINE='mcprt dis' COMP_POINT=9 COMP_TYPE=9
      __start_mcprt
      echo "${{COMPREPLY[@]}}"
    """
    assert run(["bash", "-c", script], project, environ).split()[0] == "discover"
    if shutil.which("fish"):
        line = f"source {completions['fish']}; complete -C 'mcprt dis'"
        assert run(["fish", "-c", line], project, environ).split()[0] == "discover"
    if shutil.which("zsh"):
        line = f"fpath=({completions['zsh'].parent} $fpath); autoload -Uz compinit; compinit -u -d dump; print $_comps[mcprt]"
        assert run(["zsh", "-fc", line], project, environ) == "_mcprt\n"
    if shutil.which("man"):
        for section, page in (("1", "mcprt"), ("1", "mcprt-call"), ("3", "libmcprt")):
            shown = run(["man", "-M", str(prefix / "share/man"), section, page], project, {**environ, "MANPAGER": "cat"})
            assert f"{page} - " in " ".join(re.sub(".\b", "", shown).split())


def test_destdir_holds_everything_and_names_nothing(tmp_path: Path) -> None:
    """What a packager does: the files name the prefix, never the folder they were gathered in; uninstall leaves none."""
    make("install", PREFIX="/opt/mcprt", LIBDIR="/opt/mcprt/lib64", DESTDIR=tmp_path)
    stray = tmp_path / "opt/mcprt/lib64/of-somebody-else"
    stray.write_text("")
    installed = files(tmp_path)
    assert "opt/mcprt/lib64/cmake/mcprt/mcprtConfig.cmake" in installed and all(name.startswith("opt/mcprt/") for name in installed)
    for name in installed:
        text = (tmp_path / name).read_bytes()
        assert str(tmp_path).encode() not in text and re.search(rb"@[A-Z_]+@", text[:4000]) is None, name
        if name.endswith(".pc"):
            assert b"\nlibdir=/opt/mcprt/lib64\n" in text
    make("uninstall", PREFIX="/opt/mcprt", LIBDIR="/opt/mcprt/lib64", DESTDIR=tmp_path)
    assert files(tmp_path) == {"opt/mcprt/lib64/of-somebody-else"}
    assert not (tmp_path / "opt/mcprt/lib64/cmake/mcprt").exists()

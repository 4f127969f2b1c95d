"""Runs what the documentation shows. A snippet stands in a project with the demo server; parts of a program get
the rest around them. `<!-- not run: reason -->` before a block leaves it out, and there are few of these."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PYTHON = ROOT / ".venv/bin/python"
#: Blocks that nobody can run here; a new one needs a reason that convinces.
MOST_NOT_RUN = 12


class Snippet(NamedTuple):
    place: str
    language: str
    note: str
    text: str


def snippets() -> Iterator[Snippet]:
    found = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("bindings/*/README.md"), *ROOT.glob("examples/*/README.md")]
    for path in sorted(found):
        text = path.read_text("utf-8")
        for m in re.finditer(r"(?:^<!-- (.*) -->\n)?^```(\w+)\n(.*?)^```$", text, re.M | re.S):
            line = text.count("\n", 0, m.start()) + 1
            yield Snippet(f"{path.relative_to(ROOT)}:{line}", m[2], m[1] or "", m[3])


ALL = list(snippets())


def installs(snippet: Snippet) -> bool:
    """examples/packages runs these as they are printed, with what they install."""
    return snippet.language in ("sh", "cmake") and snippet.place.split(":")[0].endswith("README.md") and "docs/" not in snippet.place


def of(*languages: str) -> pytest.MarkDecorator:
    chosen = [s for s in ALL if s.language in languages and not s.note.startswith("not run: ") and not installs(s)]
    return pytest.mark.parametrize("snippet", chosen, ids=[s.place for s in chosen])


def test_every_block_is_run_or_says_why_not() -> None:
    languages = {s.language for s in ALL}
    assert languages <= {"python", "js", "c", "cmake", "json", "jsonc", "sh"}, languages
    left_out = [s.place for s in ALL if s.note.startswith("not run: ")]
    assert len(left_out) <= MOST_NOT_RUN, left_out


@pytest.fixture
def project(tmp_path: Path) -> Path:
    server = {"command": str(BUILD / "mcprt"), "args": ["demo-server"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": server}}))
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/mcprt").symlink_to(ROOT / "bindings/node")
    return tmp_path


def run(command: List[str], project: Path, **more: str) -> str:
    env: Dict[str, str] = {
        **os.environ,
        "XDG_CACHE_HOME": str(project / "cache"),
        "XDG_CONFIG_HOME": str(project / "config"),
        "PYTHONPATH": str(ROOT / "bindings/python/src"),
        "LD_LIBRARY_PATH": str(BUILD),
        "PATH": f"{BUILD}:{os.environ['PATH']}",
        **more,
    }
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def indented(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(True))


def python_program(text: str) -> str:
    if "import mcprt" in text:
        return text
    opened = 'rt = mcprt.Runtime(cwd=".", project_trust="always")\nreport = rt.connect()\nask = lambda *_: True\n'
    if re.search(r"^\s*(await|async with)\b|= await ", text, re.M):
        # As in a notebook, or inside a coroutine.
        return f"import asyncio\nimport mcprt\n\nasync def main():\n{indented(text)}\nasyncio.run(main())\n"
    return f"import mcprt\n{opened}{text}\nrt.close()\n"


@of("python")
def test_python(snippet: Snippet, project: Path) -> None:
    (project / "program.py").write_text(python_program(snippet.text))
    run([str(PYTHON), "program.py"], project)


def node_program(text: str) -> str:
    if "import { Runtime }" in text:
        return text
    name = "runtime" if "runtime." in text or "const runtime" in text else "rt"
    opened = "" if f"const {name} =" in text else f"const {name} = await Runtime.open({{ cwd: '.', projectTrust: 'always' }})\nawait {name}.connect()\n"
    return f"import {{ Runtime }} from 'mcprt'\n{opened}{text}\nawait {name}.close()\n"


@of("js")
def test_node(snippet: Snippet, project: Path) -> None:
    (project / "program.mjs").write_text(node_program(snippet.text))
    if "process.parentPort" in snippet.text:
        (project / "parent.mjs").write_text(
            "import { fork } from 'node:child_process'\n"
            "const child = fork('./program.mjs')\n"
            "const next = () => new Promise((resolve) => child.once('message', resolve))\n"
            "if (!((await next()).ready > 0)) throw new Error('no tools')\n"
            "child.send({ id: 1, name: 'mcp_demo_echo', args: { text: 'hi' } })\n"
            "const answer = await next()\n"
            "if (answer.content[0].text !== 'hi') throw new Error(JSON.stringify(answer))\n"
            "child.disconnect()\n"
            "await new Promise((resolve) => child.once('exit', resolve))\n"
        )
        run(["node", "parent.mjs"], project)
    else:
        run(["node", "program.mjs"], project)


@of("c")
def test_c(snippet: Snippet, project: Path) -> None:
    opened = '  mcprt_open("{\\"projectTrust\\":\\"always\\"}", 25, &mgr, &out);\n  mcprt_connect(mgr, NULL, 0, &out);\n  mcprt_buf_free(&out);\n'
    whole = "int main(" in snippet.text
    (project / "program.c").write_text(
        snippet.text
        if whole
        else "#include <mcprt.h>\n#include <stdio.h>\nint main(void) {\n  mcprt_mgr mgr;\n  mcprt_buf out;\n"
        + ("" if "mcprt_open(" in snippet.text else opened)
        + snippet.text
        + "  mcprt_close(mgr, -1);\n  mcprt_free(mgr);\n  return 0;\n}\n"
    )
    run(["cc", "-Wall", "-Werror", "program.c", f"-I{ROOT}/include", f"-L{BUILD}", "-lmcprt", "-o", "program"], project)
    run(["./program"], project)


@of("sh")
def test_shell(snippet: Snippet, project: Path) -> None:
    run(["sh", "-e", "-c", snippet.text], project)


@of("json", "jsonc")
def test_json(snippet: Snippet) -> None:
    text = re.sub(r"^\s*//.*$", "", snippet.text, flags=re.M) if snippet.language == "jsonc" else snippet.text
    text = re.sub(r",(\s*[}\]])", r"\1", text) if snippet.language == "jsonc" else text
    json.loads(text)


def test_gunicorn_hooks(project: Path) -> None:
    (snippet,) = [s for s in ALL if "post_worker_init" in s.text]
    (project / "hooks.py").write_text(snippet.text)
    (project / "program.py").write_text(
        "import os, types, hooks\n"
        "worker = types.SimpleNamespace(wsgi=lambda environ, start: None)\n"
        "pid = os.fork()\n"  # as gunicorn does: the hook runs in the child
        "if pid == 0:\n"
        "    hooks.post_worker_init(worker)\n"
        "    good = worker.wsgi.mcp.call('mcp_demo_echo', {'text': 'hi'}).text == 'hi'\n"
        "    hooks.worker_exit(None, worker)\n"
        "    os._exit(0 if good else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
    )
    run([str(PYTHON), "program.py"], project)


AGENT = ROOT / "examples/agent"
LANGUAGES = {
    "python": [str(PYTHON), str(AGENT / "python/agent.py")],
    "node": ["node", "agent.mjs"],
    "c": [str(BUILD / "agent-c")],
}
EXPECTED = """\
search: picture -> mcp_demo_image
call: mcp_demo_image
  image/png, 90 bytes
search: reporting progress -> mcp_demo_slow
call: mcp_demo_slow
  progress 1/3
  progress 2/3
call: mcp_everything_trigger-elicitation-request
  asked: Please provide inputs for the following fields:
call: mcp_demo_fail
  failed: no paper
call: mcp_demo_gone
  error: unknown_tool
say: That is all.
"""


@pytest.fixture
def agent_project(project: Path) -> Path:
    everything = ROOT / "testservers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    config = json.loads((project / ".mcp.json").read_text())
    config["mcpServers"]["everything"] = {"command": "node", "args": [str(everything), "stdio"]}
    (project / ".mcp.json").write_text(json.dumps(config))
    (project / "agent.mjs").symlink_to(AGENT / "node/agent.mjs")
    (project / "agent.mjs").unlink()
    (project / "agent.mjs").write_text((AGENT / "node/agent.mjs").read_text())
    return project


@pytest.mark.parametrize("language", LANGUAGES)
def test_agent(language: str, agent_project: Path) -> None:
    assert run([*LANGUAGES[language], str(AGENT / "script.json")], agent_project) == EXPECTED


@pytest.mark.parametrize("language", LANGUAGES)
def test_agent_is_interrupted(language: str, project: Path) -> None:
    """Ctrl-C ends the call, the model is told, and the agent goes on."""
    if language == "node":
        (project / "agent.mjs").write_text((AGENT / "node/agent.mjs").read_text())
    (project / "script.json").write_text(
        json.dumps([{"tool": "call_tool", "arguments": {"name": "mcp_demo_slow", "arguments": {"ms": 600000, "steps": 1000}}}, {"say": "Then not."}])
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(project / "cache"), "XDG_CONFIG_HOME": str(project / "config")}
    env.update(PYTHONPATH=str(ROOT / "bindings/python/src"), LD_LIBRARY_PATH=str(BUILD))
    agent = subprocess.Popen([*LANGUAGES[language], "script.json"], cwd=project, env=env, stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    seen = ""
    while "progress 1/" not in seen:  # the call runs
        line = agent.stdout.readline()
        assert line, seen
        seen += line
    agent.send_signal(2)
    rest, _ = agent.communicate(timeout=20)
    assert rest.endswith("  cancelled\nsay: Then not.\n") and agent.returncode == 0, seen + rest

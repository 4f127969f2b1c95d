"""Finding and loading the library, and what is said when that fails."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

import mcprt
from mcprt import _library
from mcprt._library import PROTOTYPES

from .conftest import ROOT

HEADER = (ROOT / "include" / "mcprt.h").read_text()
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_every_function_of_the_header_has_its_prototype() -> None:
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    types = {
        "mcprt_mgr": ctypes.c_uint64,
        "uint64_t": ctypes.c_uint64,
        "int32_t": ctypes.c_int32,
        "mcprt_status": ctypes.c_int32,
        "uint32_t": ctypes.c_uint32,
        "size_t": ctypes.c_size_t,
        "void": None,
        "char *": ctypes.c_char_p,
        "mcprt_mgr *": ctypes.POINTER(ctypes.c_uint64),
        "mcprt_buf *": ctypes.POINTER(_library.Buf),
        "size_t *": ctypes.POINTER(ctypes.c_size_t),
        "void *": ctypes.c_void_p,
    }

    def of(declared: str) -> Any:
        declared = declared.replace("const ", "").strip()
        kind = re.match(r"\w+(\s*\*)?", declared)
        assert kind is not None
        return types[re.sub(r"\s*\*", " *", kind[0])]

    found = re.findall(r"^MCPRT_API ([\w ]+?[ *]+)(mcprt_\w+)\s*\(([^)]*)\)", code, re.M)
    declared: Dict[str, Any] = {}
    for returned, name, arguments in found:
        parts = [] if arguments == "void" else arguments.split(",")
        declared[name] = (of(returned), [of(part) for part in parts])
    assert len(declared) > 15
    assert declared == PROTOTYPES


def test_constants_are_those_of_the_header() -> None:
    defined = {name: value for name, value in re.findall(r"^#define MCPRT_(\w+) +(.+?)(?:\s*/\*.*)?$", HEADER, re.M)}
    for name in "DISCOVER CONNECT LIST CALL RELOAD REPLY DISCONNECT CLOSE".split():
        assert getattr(_library, name) == int(defined[name])
    for name in "EV_DONE EV_NOTICE EV_REQUEST EV_DROPPED EV_CLOSED".split():
        assert getattr(_library, name) == int(defined[name])
    assert _library.F_HOLD == int(defined["F_HOLD"].rstrip("u"))
    assert _library.F_FORGET == int(defined["F_FORGET"].rstrip("u"))
    assert hex(_library.TAG_MAX) == re.findall(r"UINT64_C\((\w+)\)", defined["TAG_MAX"])[0].lower()
    assert (_library.ABI, _library.MINOR) == (int(defined["ABI"]), int(defined["VERSION_MINOR"]))


def test_importing_loads_nothing_and_the_first_runtime_does(run_python: Run) -> None:
    done = run_python(
        "import mcprt\n"
        "maps = lambda: 'libmcprt' in open('/proc/self/maps').read()\n"
        "before = maps()\n"
        "mcprt.Runtime().close()\n"
        "print(before, maps())"
    )
    assert (done.stdout, done.stderr) == ("False True\n", "")


def test_version(stub: str) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", mcprt.library_version())
    assert mcprt.library_version().startswith(f"0.{_library.MINOR}.")


def refusal(monkeypatch: pytest.MonkeyPatch, path: object) -> str:
    monkeypatch.setattr(_library, "_loaded", None)
    monkeypatch.setenv("MCPRT_LIBRARY", str(path))
    with pytest.raises(mcprt.LibraryError) as caught:
        mcprt.Runtime()
    assert "\n" not in caught.value.message
    return caught.value.message


def test_named_file_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert refusal(monkeypatch, tmp_path / "none.so") == (
        f"MCPRT_LIBRARY names {tmp_path}/none.so, but there is no such file."
    )


def test_file_is_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    junk = tmp_path / "junk.so"
    junk.write_text("junk")
    message = refusal(monkeypatch, junk)
    assert message.startswith("the system cannot load the mcprt library: ")
    assert str(junk) in message


def test_library_of_another_machine(monkeypatch: pytest.MonkeyPatch, stub_path: str, tmp_path: Path) -> None:
    data = bytearray(Path(stub_path).read_bytes())
    ours = int.from_bytes(data[18:20], "little")
    other, name = (62, "x86_64") if ours == 183 else (183, "aarch64")
    data[18:20] = other.to_bytes(2, "little")
    foreign = tmp_path / "foreign.so"
    foreign.write_bytes(data)
    message = refusal(monkeypatch, foreign)
    assert message.startswith(f"{foreign} is made for {name}, but this Python runs on ")


def test_library_of_which_the_end_is_missing(monkeypatch: pytest.MonkeyPatch, stub_path: str, tmp_path: Path) -> None:
    whole = Path(stub_path).read_bytes()
    half = tmp_path / "half.so"
    for length in (64, 200, 4096):  # the loader itself ends the process at some of them
        half.write_bytes(whole[:length])
        assert refusal(monkeypatch, half) == f"{half} is only the beginning of a library: copy or install it again."
    assert not _library._cut_short(stub_path) and not _library._cut_short(sys.executable)
    half.write_bytes(whole[:32] + b"\xff" * 32)
    assert refusal(monkeypatch, half) == f"{half} is only the beginning of a library: copy or install it again."


def test_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in Path(mcprt.__file__).parent.glob("*.py"):
            zipped.write(file, f"mcprt/{file.name}")
        zipped.writestr("__main__.py", "import mcprt\nmcprt.Runtime()\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MCPRT_", "PYTHON"))}
    ran = subprocess.run([sys.executable, archive], env=environment, capture_output=True, text=True, timeout=60)
    assert f"LibraryError: mcprt was imported from an archive ({archive}/mcprt), out of which" in ran.stderr


def test_library_for_a_newer_glibc(monkeypatch: pytest.MonkeyPatch, stub_path: str, tmp_path: Path) -> None:
    data = Path(stub_path).read_bytes()
    newer = tmp_path / "newer.so"
    # Its hash does not fit any more, so no system has it.
    newer.write_bytes(data.replace(b"\0GLIBC_2.", b"\0GLIBC_9.", 1))
    assert re.match(rf"{newer} needs glibc 9\.[\d.]+, and this system's is older: ", refusal(monkeypatch, newer))


def test_another_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    source = tmp_path / "other.c"
    source.write_text("int mcprt_check(int a, int b) { return a + b; }\n")
    subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-o", other, source], check=True, timeout=60)
    assert "is not an mcprt library that fits this package" in refusal(monkeypatch, other)


def test_library_that_is_too_old(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "MINOR", 99)
    message = refusal(monkeypatch, stub)
    assert "needs ABI 0 and at least version 0.99" in message
    monkeypatch.setattr(_library, "MINOR", 1)
    monkeypatch.setattr(_library, "ABI", 1)
    assert "needs ABI 1" in refusal(monkeypatch, stub)


def test_a_failed_load_can_be_tried_again(stub: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusal(monkeypatch, tmp_path / "none.so")
    monkeypatch.setenv("MCPRT_LIBRARY", stub)
    mcprt.Runtime().close()


def _found_by(package: Path) -> str:
    """What a copy of the package that lies at ``package`` loads, or says, where no library is named."""
    shutil.copytree(Path(mcprt.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import mcprt\n"
        "try: print(mcprt._library.load().path)\n"
        "except mcprt.LibraryError as err: print(err.message)"
    )
    return subprocess.run(
        [sys.executable, "-I", "-c", program, str(package.parent)],
        env={name: value for name, value in os.environ.items() if name != "MCPRT_LIBRARY"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


def test_an_installation_finds_the_file_beside_the_package(stub_path: str, tmp_path: Path) -> None:
    package = tmp_path / "site" / "mcprt"
    assert _found_by(package).startswith(
        f"this installation of mcprt has no library for {sys.platform} on {platform.machine()}: libmcprt.so.0 is not in {package}, "
    )
    shutil.copy(stub_path, package / "libmcprt.so.0")
    assert _found_by(package) == f"{package}/libmcprt.so.0\n"


def test_a_checkout_finds_its_build_or_says_how_to_make_it(stub_path: str, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    (root / "include").mkdir(parents=True)
    (root / "include" / "mcprt.h").touch()
    package = root / "bindings" / "python" / "src" / "mcprt"
    assert _found_by(package) == f"the mcprt library is not built: run 'make build' in {root}.\n"
    (root / "build").mkdir()
    shutil.copy(stub_path, root / "build" / "libmcprt.so.0")
    assert _found_by(package) == f"{root}/build/libmcprt.so.0\n"


FORK = """
import os, sys, mcprt
{before}
pid = os.fork()
if pid:
    _, status = os.waitpid(pid, 0)
    {parent}
    sys.exit(os.waitstatus_to_exitcode(status))
try:
    {child}
    print("no error")
except mcprt.ForkError as err:
    print(type(err).__name__, err)
sys.stdout.flush()
os._exit(0)
"""

FORKED = (
    "ForkError mcprt cannot be used in this process: it was forked after its parent had loaded mcprt; start workers "
    "with the 'spawn' or 'forkserver' method, or make the first Runtime after the fork.\n"
)


@pytest.mark.parametrize(
    "child", ["mcprt.Runtime()", "rt.list()", "rt.close()", "rt.events()", "mcprt.library_version()"]
)
def test_a_forked_child_is_told(run_python: Run, child: str) -> None:
    done = run_python(FORK.format(before="rt = mcprt.Runtime()", parent="assert rt.list(); rt.close()", child=child))
    assert (done.stdout, done.stderr, done.returncode) == (FORKED, "", 0)


def test_the_c_check_is_behind_the_python_one(run_python: Run) -> None:
    child = "mcprt._library.generation = 0; rt.list()"
    done = run_python(FORK.format(before="rt = mcprt.Runtime()", parent="rt.close()", child=child))
    assert (done.stdout, done.stderr, done.returncode) == (FORKED, "", 0)


def test_a_library_that_others_loaded_before_the_fork(run_python: Run) -> None:
    before = "import ctypes; ctypes.CDLL(os.environ['MCPRT_LIBRARY']).mcprt_check(0, 0)"
    done = run_python(FORK.format(before=before, parent="", child="mcprt.Runtime()"))
    assert (done.stdout, done.stderr, done.returncode) == (FORKED, "", 0)


def test_fork_before_the_first_runtime_is_fine(run_python: Run) -> None:
    done = run_python(FORK.format(before="", parent="", child="rt = mcprt.Runtime(); print(len(rt.list())); rt.close()"))
    assert (done.stdout, done.stderr, done.returncode) == ("8\nno error\n", "", 0)

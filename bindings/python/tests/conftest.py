"""Which library a test runs against."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

from mcprt import _library

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def stub_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The C side of the library over a stand-in for the Go side, whose answers are exact and quick."""
    out = tmp_path_factory.mktemp("stub")
    subprocess.run(["sh", str(ROOT / "capi" / "build-stub.sh"), str(out)], check=True, timeout=120)
    return str(out / "libmcprt-stub.so")


@pytest.fixture
def stub(stub_path: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """This test's runtimes use the stub."""
    monkeypatch.setattr(_library, "_loaded", None)
    monkeypatch.setenv("MCPRT_LIBRARY", stub_path)
    return stub_path


@pytest.fixture
def run_python(stub_path: str) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a program that uses the stub in a process of its own."""

    def run(program: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program],
            env={**os.environ, "MCPRT_LIBRARY": stub_path, **env},
            capture_output=True,
            text=True,
            timeout=30,
        )

    return run


def wait_until(true: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Polls, for what another thread does in its own time."""
    import time

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = true()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"not true within {seconds} s")


def alive(pid: int) -> bool:
    """Whether a process runs. It may end between the opening of its file and the reading."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

"""A runtime with the server of this folder."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcprt
import pytest

SERVERS = {"s": {"command": sys.executable, "args": [str(Path(__file__).with_name("server.py"))]}}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Nothing of this machine's user."""
    return {
        "servers": SERVERS,
        "cwd": tmp_path,
        "cache": {"enabled": False},
        "discovery": {"user": "none", "project": False},
        "grace": 0.5,
    }


@pytest.fixture
def rt(options: dict[str, Any]) -> Iterator[mcprt.Runtime]:
    with mcprt.Runtime(**options) as runtime:
        assert runtime.connect().connected == ["s"]
        yield runtime


@asynccontextmanager
async def async_runtime(options: dict[str, Any]) -> AsyncIterator[mcprt.AsyncRuntime]:
    async with mcprt.AsyncRuntime(**options) as runtime:
        assert (await runtime.connect()).connected == ["s"]
        yield runtime

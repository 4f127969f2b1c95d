"""Codes, classes and statuses."""

from __future__ import annotations

import builtins
import json
import re

import pytest

import mcprt
from mcprt import _errors
from mcprt._errors import BY_CODE, MCPError, Status, error_from

from .conftest import ROOT


def _codes_of_core() -> list[str]:
    source = (ROOT / "core" / "fault" / "fault.go").read_text()
    values = dict(re.findall(r'^\t(\w+)\s+Code = "(\w+)"', source, re.M))
    body = re.search(r"^var Codes = \[\]Code\{(.*?)^\}", source, re.M | re.S)
    assert body is not None
    return [values[name] for name in re.findall(r"\w+", body[1])]


def test_every_code_has_one_class_and_no_class_is_left_over() -> None:
    codes = _codes_of_core()
    assert len(codes) > 20
    assert list(BY_CODE) == codes
    for code, cls in BY_CODE.items():
        squeezed = code.replace("_", "") + "error"
        assert cls.__name__.lower() in (squeezed, squeezed.replace("errorerror", "error"))
        assert getattr(mcprt, cls.__name__) is cls
        assert cls.__name__ in mcprt.__all__


def test_every_status_of_the_header_is_known_and_has_a_class() -> None:
    header = (ROOT / "include" / "mcprt.h").read_text()
    statuses = {name: int(value) for name, value in re.findall(r"^#define MCPRT_(E[A-Z]+|OK) +(-?\d+)", header, re.M)}
    ours = {name: value for name, value in vars(Status).items() if name.isupper()}
    assert ours == statuses
    for value in statuses.values():
        if value < 0:
            error = error_from(value, b"")
            assert error.status == value
            assert error.message.endswith(".")


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (Status.EHANDLE, mcprt.ClosedError),
        (Status.EFORK, mcprt.ForkError),
        (Status.EVERSION, mcprt.LibraryError),
        (Status.ENOMEM, MemoryError),
        (Status.EBUSY, mcprt.BusyError),
        (Status.ETIMEOUT, builtins.TimeoutError),
        (Status.ECLOSED, mcprt.ClosedError),
        (Status.EINTERNAL, mcprt.InternalError),
        (Status.EFAILED, MCPError),
        (-77, MCPError),
    ],
)
def test_status_without_json(status: int, cls: type) -> None:
    error = error_from(status, b"")
    assert isinstance(error, cls)
    assert isinstance(error, MCPError)
    assert error.retryable is (status == Status.EBUSY)


def test_all_fields_arrive() -> None:
    reply = {
        "error": {
            "code": "exited",
            "message": "files ended with exit code 3; run it by hand to see why",
            "server": "files",
            "tool": "read",
            "stage": "receive",
            "retryable": True,
            "data": {"exitCode": 3, "stderr": "no such folder"},
        },
        "result": {"isError": True, "content": [{"type": "text", "text": "MCP error: ended"}]},
    }
    error = error_from(Status.EFAILED, json.dumps(reply).encode())
    assert type(error) is mcprt.ExitedError
    assert str(error) == error.message == "files ended with exit code 3; run it by hand to see why"
    assert (error.code, error.server, error.tool, error.stage) == ("exited", "files", "read", "receive")
    assert error.retryable is True
    assert error.data == {"exitCode": 3, "stderr": "no such folder"}
    assert error.result is not None
    assert error.result.is_error
    assert error.result.text == "MCP error: ended"


def test_a_code_of_a_later_library_keeps_its_name() -> None:
    error = error_from(Status.EFAILED, b'{"error":{"code":"brand_new","message":"m","retryable":false}}')
    assert type(error) is MCPError
    assert error.code == "brand_new"
    assert MCPError.code == "internal"
    timed_out = error_from(Status.ETIMEOUT, b'{"error":{"code":"slow_again","message":"m"}}')
    assert type(timed_out) is mcprt.TimeoutError


def test_a_servers_data_that_python_cannot_hold_hides_nothing_else() -> None:
    reply = (
        b'{"error":{"code":"rpc_error","message":"m","data":{"rpcCode":-32000,"rpcData":{"n":' + b"9" * 5000 + b"}}}}"
    )
    error = error_from(Status.EFAILED, reply)
    assert type(error) is mcprt.RPCError
    assert error.data == {"rpcCode": -32000, "rpcData": {"n": None}}


def test_the_tree_in_the_docstring_is_true() -> None:
    assert issubclass(mcprt.ForkError, mcprt.LibraryError)
    assert issubclass(mcprt.LibraryError, ImportError)
    assert issubclass(mcprt.OutOfMemoryError, MemoryError)
    assert not issubclass(mcprt.ReplyError, MCPError)
    assert {cls.code for cls in (_errors.LibraryError, _errors.ForkError, _errors.OutOfMemoryError)}.isdisjoint(BY_CODE)

"""Signs in to a FastMCP server at a real authorization server (oidc-provider), which
rotates refresh tokens and revokes everything when one comes twice. Both run: see with-remote.sh."""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Dict, Tuple

import mcprt
import pytest

DIRECT = urllib.request.ProxyHandler({})

# One of many processes: calls the tool as whoever the store says, and asks nobody.
CALLER = """
import json, sys, mcprt
options = json.loads(sys.argv[1])
with mcprt.Runtime(options=options) as rt:
    rt.connect()
    print(rt.call("whoami", server="guarded", timeout=60).text)
"""


class World:
    def __init__(self, issuer: str, server: str) -> None:
        self.issuer, self.server = issuer, server

    def get(self, path: str) -> Dict[str, Any]:
        with urllib.request.build_opener(DIRECT).open(self.issuer + path, timeout=30) as reply:
            return json.load(reply)

    def options(self, store: Path) -> Dict[str, Any]:
        return {
            "servers": {"guarded": {"url": self.server}},
            "env": {"HOME": "/nonexistent"},
            "discovery": {"project": False, "user": "none"},
            "cache": {"enabled": False},
            "auth": {"store": "file", "dir": str(store)},
            "startupTimeoutMs": 60_000,
        }


@pytest.fixture
def world() -> World:
    return World(os.environ["OAUTH_ISSUER"], os.environ["REMOTE_GUARDED"])


def person(request: mcprt.Request) -> Dict[str, Any]:
    """Opens the page in a browser, agrees, and ends at mcprt's listener."""
    browser = urllib.request.build_opener(DIRECT, urllib.request.HTTPCookieProcessor())
    with browser.open(request.params["url"], timeout=30) as page:
        assert b"close this page" in page.read()
    return {}


def sign_in(world: World, store: Path) -> None:
    with mcprt.Runtime(options=world.options(store), on_request={"authorization": person}) as rt:
        report = rt.connect()
        assert report.needs_auth == ["guarded"]
        assert rt.login("guarded")["signedIn"] is True
        assert rt.call("whoami", server="guarded").text == "somebody"


def refresh_tokens(store: Path) -> Tuple[Path, Dict[str, Any]]:
    for file in store.glob("*.json"):
        record = json.loads(file.read_text("utf-8"))
        if record.get("refresh"):
            return file, record
    raise AssertionError("no refresh token is stored")


def test_five_processes_refresh_once(world: World, tmp_path: Path) -> None:
    store = tmp_path / "auth"
    world.get("/test/life?seconds=2")
    sign_in(world, store)
    world.get("/test/life?seconds=3600")
    file, record = refresh_tokens(store)
    assert (file.stat().st_mode & 0o777, store.stat().st_mode & 0o777) == (0o600, 0o700)
    time.sleep(2.5)  # the token is over
    before = world.get("/test/counts")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CALLER, json.dumps(world.options(store))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )
        for _ in range(5)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [out.strip() for out, _ in outputs] == ["somebody"] * 5, outputs
    after = world.get("/test/counts")
    assert after["refresh_token"] - before["refresh_token"] == 1
    assert after["refused"] == before["refused"]
    _, renewed = refresh_tokens(store)
    assert renewed["refresh"] != record["refresh"]

    # The server does revoke when a token comes twice; then a person is needed again.
    form = {"grant_type": "refresh_token", "refresh_token": record["refresh"], "client_id": record["client"]["id"]}
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.build_opener(DIRECT).open(world.issuer + "/token", urllib.parse.urlencode(form).encode(), timeout=30)
    stale = {**renewed, "expiresAt": "2020-01-01T00:00:00Z"}
    file.write_text(json.dumps(stale), "utf-8")
    with mcprt.Runtime(options=world.options(store)) as rt:
        assert rt.connect().needs_auth == ["guarded"]
        with pytest.raises(mcprt.NeedsAuthError):
            rt.call("whoami", server="guarded")
    sign_in(world, store)


def test_sign_out_revokes(world: World, tmp_path: Path) -> None:
    store = tmp_path / "auth"
    sign_in(world, store)
    _, record = refresh_tokens(store)
    with mcprt.Runtime(options=world.options(store)) as rt:
        assert rt.connect().connected == ["guarded"]
        assert rt.logout("guarded") == {"server": "guarded", "signedOut": True, "revoked": True}
        assert rt.connect().needs_auth == ["guarded"]
    form = {"grant_type": "refresh_token", "refresh_token": record["refresh"], "client_id": record["client"]["id"]}
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.build_opener(DIRECT).open(world.issuer + "/token", urllib.parse.urlencode(form).encode(), timeout=30)


def test_async_handler(world: World, tmp_path: Path) -> None:
    async def answer(request: mcprt.Request) -> Dict[str, Any]:
        return await asyncio.to_thread(person, request)

    async def run() -> None:
        async with mcprt.AsyncRuntime(options=world.options(tmp_path / "auth"), on_request={"authorization": answer}) as rt:
            assert (await rt.login("guarded"))["signedIn"] is True
            assert (await rt.call("whoami", server="guarded")).text == "somebody"
            assert (await rt.logout("guarded"))["signedOut"] is True

    asyncio.run(run())


def test_declined(world: World, tmp_path: Path) -> None:
    with mcprt.Runtime(
        options=world.options(tmp_path / "auth"), on_request={"authorization": lambda _: {"declined": True}}
    ) as rt:
        rt.connect()
        with pytest.raises(mcprt.NeedsAuthError, match="declined"):
            rt.call("whoami", server="guarded")

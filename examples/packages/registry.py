"""An npm registry of a few tarballs on the loopback interface: enough for `npm install NAME`, and nothing comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Dict, Iterable, List, Tuple
from urllib.parse import unquote


class Registry:
    """Serves each tarball under the name and version in its package.json. ``asked`` lists the paths of all requests."""

    def __init__(self, tarballs: Iterable[Path]) -> None:
        self.asked: List[str] = []
        self._packages: Dict[str, Tuple[dict, Path]] = {}
        for path in tarballs:
            with tarfile.open(path) as archive:
                manifest = json.load(archive.extractfile("package/package.json"))
            self._packages[manifest["name"]] = (manifest, path)
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = unquote(self.path).lstrip("/")
                registry.asked.append(path)
                name, _, file = path.partition("/-/")
                found = registry._packages.get(name)
                if found is None:
                    self._send(404, b"{}")
                elif file:
                    self._send(200, found[1].read_bytes())
                else:
                    self._send(200, json.dumps(registry._document(*found)).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _document(self, manifest: dict, path: Path) -> dict:
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        dist = {"tarball": f"{self.url}{manifest['name']}/-/{path.name}", "integrity": integrity}
        version = manifest["version"]
        return {"name": manifest["name"], "dist-tags": {"latest": version}, "versions": {version: {**manifest, "dist": dist}}}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

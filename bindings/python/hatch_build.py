"""Puts the shared library and the command line tool of a checkout into the wheel, under the platform tag that they need.

``MCPRT_WHEEL=musl`` makes the wheel for musl, where the tool does the work of the library: it has the tool alone.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "libmcprt.so.0"


def glibc_floor(library: Path) -> tuple[int, int]:
    """The newest version of glibc that a symbol of the library asks for: version names stand whole in its string table."""
    found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\d]*\0)", library.read_bytes())
    if not found:
        raise RuntimeError(f"{library} asks for no version of glibc: it is not a library built for glibc.")
    return max((int(major), int(minor)) for major, minor in found)


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build = Path(self.root).parent.parent / "build"
        # An editable install finds the checkout's build itself, and an sdist has no build: the user names a library.
        if version == "editable" or not (build / LIBRARY).exists() or sys.platform != "linux":
            return
        build_data["pure_python"] = False
        build_data["force_include"] = {str(build / "mcprt"): "mcprt/_bin/mcprt"}
        if os.environ.get("MCPRT_WHEEL") == "musl":
            # The tool is static: any musl does, and 1.1 is the oldest that has a tag.
            build_data["tag"] = f"py3-none-musllinux_1_1_{platform.machine()}"
            return
        major, minor = glibc_floor(build / LIBRARY)
        build_data["tag"] = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
        build_data["force_include"][str(build / LIBRARY)] = f"mcprt/{LIBRARY}"

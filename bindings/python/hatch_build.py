"""Puts the shared library and the command line tool into the wheel, under the platform tag that they need.

They are those of the checkout (``make build``), or, for an sdist, the library that the variable ``MCPRT_LIBRARY`` names, and
the tool ``mcprt`` beside it. A wheel without a library would only fail later, so it is not made.

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
# The words of e_machine, as ``platform.machine()`` says them.
MACHINES = {62: "x86_64", 183: "aarch64"}


class NoLibrary(Exception):
    """What a person reads below pip's own lines."""


def find_library(checkout: Path) -> Path:
    """The library that the wheel carries."""
    named = os.environ.get("MCPRT_LIBRARY")
    built = checkout / "build" / LIBRARY
    if named:
        if not Path(named).is_file():
            raise NoLibrary(f"MCPRT_LIBRARY names {named}, but there is no such file.")
        return Path(named).resolve()
    if (checkout / "include" / "mcprt.h").is_file():
        if not built.is_file():
            raise NoLibrary(f"the mcprt library is not built: run 'make build' in {checkout}, then install again.")
        return built
    raise NoLibrary(
        "the source package of mcprt has no library inside: build one ('make build' in a checkout of mcprt), set MCPRT_LIBRARY to the path "
        f"of that {LIBRARY}, then install again; or install the wheel that 'make wheel' makes there."
    )


def glibc_floor(library: Path) -> tuple[int, int]:
    """The newest version of glibc that a symbol of the library asks for: version names stand whole in its string table."""
    found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\d]*\0)", library.read_bytes())
    if not found:
        raise NoLibrary(f"{library} asks for no version of glibc: it is not a library built for Linux with glibc.")
    return max((int(major), int(minor)) for major, minor in found)


def machine_of(library: Path) -> str:
    """The processor that a library was built for, which need not be this one's."""
    with library.open("rb") as file:
        head = file.read(20)
    number = int.from_bytes(head[18:20], "little")
    if head[:6] != b"\x7fELF\x02\x01" or number not in MACHINES:
        raise NoLibrary(f"{library} is not a library for one of {', '.join(MACHINES.values())}.")
    return MACHINES[number]


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        checkout = Path(self.root).parent.parent
        if self.target_name == "sdist":
            license = checkout / "LICENSE"
            if license.is_file():  # an sdist that is unpacked has its own
                build_data["force_include"] = {str(license): "LICENSE"}
        elif os.environ.get("MCPRT_WHEEL") == "musl":
            tool = checkout / "build" / "mcprt"
            if not tool.is_file():
                raise NoLibrary(f"the command line tool is not built: run 'make build' in {checkout}, then install again.")
            build_data["pure_python"] = False
            # The tool is static: any musl does, and 1.1 is the oldest that has a tag.
            build_data["tag"] = f"py3-none-musllinux_1_1_{machine_of(tool)}"
            build_data["force_include"] = {str(tool): "mcprt/_bin/mcprt"}
        elif version != "editable":  # an editable install finds the checkout's build itself
            self._add_library(checkout, build_data)

    def _add_library(self, checkout: Path, build_data: dict[str, Any]) -> None:
        if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
            raise NoLibrary(
                f"there is no wheel of mcprt for this system ({sys.platform} {platform.machine()} {platform.libc_ver()[0] or 'without glibc'}): "
                "it needs Linux with glibc. On musl (Alpine Linux) install the wheel that 'make wheel' writes to dist/musl, or use an image with glibc, such as Debian's."
            )
        library = find_library(checkout)
        major, minor = glibc_floor(library)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{major}_{minor}_{machine_of(library)}"
        build_data["force_include"] = {str(library): f"mcprt/{LIBRARY}"}
        tool = library.parent / "mcprt"
        if tool.is_file():
            build_data["force_include"][str(tool)] = "mcprt/_bin/mcprt"

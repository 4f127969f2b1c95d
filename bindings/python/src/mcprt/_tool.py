"""The command line tool ``mcprt``: where it is. It is a static program and runs on every libc."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import List, Optional

_NAME = "mcprt.exe" if sys.platform == "win32" else "mcprt"


def places() -> List[Path]:
    """Where the tool of this installation may be: in the wheel, or in the build of a checkout."""
    package = Path(__file__).resolve().parent
    found = [package / "_bin" / _NAME]
    for root in package.parents:
        if (root / "include" / "mcprt.h").is_file():
            found.append(root / "build" / _NAME)
            break
    return found


def own() -> Optional[str]:
    """The tool of this installation."""
    return next((str(place) for place in places() if place.is_file()), None)


def on_path() -> Optional[str]:
    """A tool that was installed apart: a program on PATH, never the script of this name that pip writes, which runs us."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        place = os.path.join(folder, _NAME)
        if folder and os.access(place, os.X_OK) and os.path.isfile(place):
            with open(place, "rb") as file:
                if file.read(2) != b"#!":
                    return place
    return None

"""``python -m mcprt``: the command line tool, which the wheel carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the command line tool, with the arguments of this process; exits with a sentence if it is not there."""
    package = Path(__file__).resolve().parent
    checkout = package.parents[3] if len(package.parents) > 3 else package
    places = [package / "_bin" / "mcprt"]
    if (checkout / "include" / "mcprt.h").exists():
        places.append(checkout / "build" / "mcprt")
    for place in places:
        if place.exists():
            os.execv(place, [str(place), *sys.argv[1:]])
    sys.exit("mcprt: this installation has no command line tool; install the wheel for your platform, or run \"make build\" in a checkout")


if __name__ == "__main__":
    main()

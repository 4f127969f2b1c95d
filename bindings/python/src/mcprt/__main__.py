"""``python -m mcprt``: the command line tool, which the wheel carries."""

from __future__ import annotations

import os
import sys

from . import _tool


def main() -> None:
    """Becomes the command line tool, with the arguments of this process; exits with a sentence if it is not there."""
    tool = _tool.own()
    if tool is not None:
        os.execv(tool, [tool, *sys.argv[1:]])
    sys.exit("mcprt: this installation has no command line tool; install the wheel for your platform, or run \"make build\" in a checkout")


if __name__ == "__main__":
    main()

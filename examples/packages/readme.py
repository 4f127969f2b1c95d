"""The examples of a README, as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[2]

#: How a README calls the folder that a newcomer cloned.
CHECKOUT = "/path/to/mcprt"


def blocks(readme: str, language: str) -> List[str]:
    """The fenced blocks of a language in a README of this tree, in order; the checkout's folder is put in."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / readme).read_text("utf-8"), re.M | re.S)
    assert found, f"{readme} shows no {language}"
    return [block.replace(CHECKOUT, str(ROOT)) for block in found]

"""The README's code, for the tests that run it."""

from __future__ import annotations

import re
from pathlib import Path

_README = Path(__file__).parents[1] / "README.md"


def blocks(heading: str, language: str = "python") -> list[str]:
    """The code blocks of a section in their order."""
    text = _README.read_text()
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert section is not None, heading
    return re.findall(rf"^```{language}\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)

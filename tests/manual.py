"""The code of the manual and of the README, for the tests that run it.

A block of python, sql or console is run unless the line above it says why not::

    <!-- not run: it needs a Kafka -->
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
MANUAL = ROOT / ".docs"
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.*?) -->\n)?(?P<fence>```+|:::+)(?P<language>.*)\n"
    r"(?P<code>(?s:.*?))^(?P=fence)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of code: where it stands, and why it is not run, if so."""

    page: str
    line: int
    language: str
    code: str
    reason: str | None


def pages() -> list[str]:
    """Name the pages that are written by hand, below ``.docs``, and the README."""
    found = sorted(str(path.relative_to(MANUAL)) for path in MANUAL.rglob("*.md"))
    return [*found, "../README.md"]


def all_blocks(page: str, heading: str | None = None) -> Iterator[Block]:
    """Yield the blocks of a page, or of one of its sections."""
    text, start = (MANUAL / page).read_text(), 0
    if heading is not None:
        section = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        assert section is not None, heading
        text, start = section[1], text[: section.start(1)].count("\n")
    for found in _BLOCK.finditer(text):
        line = start + text[: found.start("code")].count("\n")
        yield Block(page, line, found["language"].strip(), found["code"], found["reason"])


def blocks(page: str, language: str = "python", heading: str | None = None) -> list[str]:
    """Give the code of a page's blocks that are run, in their order."""
    return [
        block.code
        for block in all_blocks(page, heading)
        if block.language == language and block.reason is None
    ]


class Tour:
    """Follows pages in a folder of their own, as a reader does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **names: Any) -> None:
        monkeypatch.chdir(folder)
        self._monkeypatch = monkeypatch
        self.names = names

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def follow(self, *pages: str) -> None:
        """Run the blocks of pages."""
        for page in pages:
            for block in all_blocks(page):
                if block.reason is None:
                    self.run(block)

    def run(self, block: Block) -> None:
        if block.language == "python":
            self.execute(block.code, block.page, block.line)
        elif block.language == "sql":
            self._command("sql", block.code)
        elif block.language == "console":
            self._type(block.code)

    def execute(self, code: str, page: str, line: int = 0) -> None:
        """Run Python; errors name the page and the line."""
        exec(compile("\n" * line + code, str(MANUAL / page), "exec"), self.names)

    def _type(self, text: str) -> None:
        """Type commands; lines without a prompt are what they print."""
        for line in re.sub(r"\\\n", " ", text).splitlines():
            if line.startswith("$ "):
                name, *words = shlex.split(line.removeprefix("$ "), comments=True)
                if name == "export":
                    self._monkeypatch.setenv(*words[0].split("=", 1))
                    continue
                assert name == "pkray", line
                self._command(*words)

    def _command(self, *words: str) -> None:
        from pkray.cli import main

        code: object = 0
        try:
            main(list(words))
        except SystemExit as ended:
            code = ended.code
        assert code == 0, words

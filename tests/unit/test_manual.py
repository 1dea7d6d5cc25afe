"""Each block of code of the manual is run, or says why not."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.manual import ROOT, all_blocks, pages

REASONS = {
    "it installs packages",
    "it is served until it is ended",
    "it needs a Kafka",
    "it needs a PostgreSQL",
    "it needs a collector",
    "it needs a Ray cluster",
}
"""Of a kind that no test can run. What such a block shows is tested elsewhere, without its page."""
RUN = {"python", "sql", "console"}
SHOWN = {"", "json", "mermaid", "text", "toml", "yaml"}


def followed() -> str:
    """Give the text of the tests that follow pages."""
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    own = Path(__file__).read_text()
    return "\n".join(text for text in texts if "tests.manual" in text and text != own)


@pytest.mark.parametrize("page", pages())
def test_code_is_run_or_says_why_not(page):
    code = [block for block in all_blocks(page) if block.language in RUN]
    assert {block.reason for block in code} <= {*REASONS, None}
    if any(block.reason is None for block in code):
        assert f'"{page}"' in followed(), f"no test follows {page}"


@pytest.mark.parametrize("page", pages())
def test_blocks_are_of_a_known_language(page):
    languages = {block.language for block in all_blocks(page)}
    assert {each for each in languages if not each.startswith("{")} <= RUN | SHOWN


def test_each_reason_is_one_of_a_block():
    assert {block.reason for page in pages() for block in all_blocks(page)} - {None} == REASONS


def external_links(page: str) -> list[tuple[str, str]]:
    text = re.sub(r"`[^`\n]*`", "", (ROOT / ".docs" / page).read_text())
    return re.findall(r"\]\((\w+:[^)]*)\)|<(https?:[^>]*)>", text)


@pytest.mark.parametrize("page", pages())
def test_links_to_elsewhere_are_whole_and_encrypted(page):
    for link in map("".join, external_links(page)):
        found = urlsplit(link)
        assert found.scheme == "https", link
        assert re.fullmatch(r"[a-z\d-]+(\.[a-z\d-]+)+", found.netloc), link
        assert link.isascii(), link
        assert not re.search(r"[\s.,;:]$|\s|//.*//", link), link


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_what_is_there(page):
    path = ROOT / ".docs" / page
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", re.sub(r"`[^`\n]*`", "", path.read_text()))
    made = re.compile(r"(\.\./|\.docs/)?reference/(\w+)\.md")
    assert [
        link for link in links if not ((path.parent / link).exists() or made.fullmatch(link))
    ] == []

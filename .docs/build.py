"""Build the manual: ``python .docs/build.py [FOLDER]``, into ``build/manual`` by default.

Pages are copied to ``build/manual-pages`` first, where those that code writes join them: the
reference, and what lies elsewhere in the repository. Sphinx reads them there. A link that leads
nowhere, a page that no list has, and a docstring that cannot be read are errors.

``python .docs/build.py --links`` asks each page elsewhere to which the manual links whether it is
there, for which it needs the network, and writes ``build/manual-links/output.txt``.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

MANUAL = Path(__file__).parent
ROOT = MANUAL.parent
sys.path.insert(0, str(ROOT))  # the package is that of this folder

from reference import PAGES  # noqa: E402 - it imports the package

ELSEWHERE = {
    "deploy": "deploy",
    ".design": "design",
    ".github": "github",
    "tests/benchmarks/results": "benchmarks",
}
"""Folders whose pages the manual has too, and where it has them."""


def main(output: Path, pages: Path, builder: str = "html") -> int:
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(MANUAL, pages, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "examples", pages / "examples")
    for page in pages.rglob("*.md"):
        page.write_text(inside(page.read_text()))
    for folder, name in ELSEWHERE.items():
        (pages / name).mkdir()
        for page in (ROOT / folder).glob("*.md"):
            (pages / name / page.name).write_text(inside(page.read_text()))
    (pages / "reference").mkdir(exist_ok=True)  # without pages of its own it is in no checkout
    for page in PAGES:
        (pages / "reference" / f"{page.__name__}.md").write_text(page())
    words = ["-q", "-W", "--keep-going", "-j", "2", "-b", builder]
    return build_main([*words, str(pages), str(output)])


def inside(text: str) -> str:
    """Have links to the repository's other folders and its README lead to pages of the manual."""
    for folder, name in ELSEWHERE.items():
        text = re.sub(rf"\]\((?:\.\./)+{re.escape(folder)}/", f"](/{name}/", text)
    text = text.replace("](../.docs/", "](/")
    return re.sub(r"\]\((?:\.\./)+README\.md(#[\w-]+)?\)", "](/index.md)", text)


if __name__ == "__main__":
    checks_links = sys.argv[1:] == ["--links"]
    given = sys.argv[1:] and not checks_links
    target = Path(sys.argv[1]) if given else ROOT / f"build/manual{'-links' * checks_links}"
    builder = "linkcheck" if checks_links else "html"
    sys.exit(main(target, target.with_name(f"{target.name}-pages"), builder))

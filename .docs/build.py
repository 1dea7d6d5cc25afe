"""Build the manual: ``python .docs/build.py [FOLDER]``, into ``build/manual`` by default.

Pages are copied to ``build/manual-pages`` first, where those that code writes join them: the
reference, and what lies elsewhere in the repository. Sphinx reads them there. A link that leads
nowhere, a page that no list has, and a docstring that cannot be read are errors.
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


def main(output: Path, pages: Path) -> int:
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
    return build_main(["-q", "-W", "--keep-going", "-j", "2", str(pages), str(output)])


def inside(text: str) -> str:
    """Have links to the repository's other folders and its README lead to pages of the manual."""
    for folder, name in ELSEWHERE.items():
        text = re.sub(rf"\]\((?:\.\./)+{re.escape(folder)}/", f"](/{name}/", text)
    text = text.replace("](../.docs/", "](/")
    return re.sub(r"\]\((?:\.\./)+README\.md(#[\w-]+)?\)", "](/index.md)", text)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build/manual"
    sys.exit(main(target, target.with_name(f"{target.name}-pages")))

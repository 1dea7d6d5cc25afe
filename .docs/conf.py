"""How Sphinx builds the manual: ``.ci/run docs``."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

import pkray

project = "pkray"
author = project_copyright = "The pkray authors"
release = version = pkray.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "separated"
python_maximum_signature_line_length = 90
napoleon_numpy_docstring, napoleon_use_ivar = False, True
default_role = "code"

html_theme = "furo"
html_title = "pkray"
html_static_path = ["static"]
html_css_files = ["manual.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "monokai"


class Text:
    """Stands for a type in a signature: it is written as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def plain_signature(
    app: Sphinx, what: str, name: str, made: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Write the types of arguments without what checks them, which `Annotated` has."""
    if what not in ("function", "method") or signature is None:
        return None
    try:
        hints = get_type_hints(made)
        written = inspect.signature(made)
    except (NameError, TypeError, ValueError):
        return None
    shown = [
        each.replace(annotation=Text(stringify_annotation(hints[each.name], "smart")))
        if each.name in hints
        else each
        for each in written.parameters.values()
        if each.name not in ("self", "cls")
    ]
    result = stringify_annotation(hints["return"], "smart") if "return" in hints else ""
    return str(inspect.Signature(shown)), result


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-signature", plain_signature)

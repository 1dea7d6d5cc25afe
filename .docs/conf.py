"""How Sphinx builds the manual: ``.ci/run docs``."""

from __future__ import annotations

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

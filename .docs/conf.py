"""How Sphinx builds the manual: ``.ci/run docs``."""

from __future__ import annotations

import pkray

project = "pkray"
author = project_copyright = "The pkray authors"
release = version = pkray.__version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.strikethrough"]
nitpicky = True

html_theme = "furo"
html_title = "pkray"
html_static_path = ["static"]
html_css_files = ["manual.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "monokai"

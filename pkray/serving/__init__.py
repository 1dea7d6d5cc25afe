"""Serves a warehouse over HTTP: metrics for Prometheus, and a console for people.

::

    browser, Prometheus ──▶ guard ──▶ application ──▶ pkray.inspection, sql
                                                                   │
                                                                   ▼
                                                            the Python API

- **guard** (``guard``): lets a request in by its host, its origin and its token, before anything
  else sees it; only the health check needs no token.
- **application** (``application``): the paths. What it answers comes from `pkray.inspection`, and
  of statements from ``sql``. They read; what changes anything is in ``changes``, and is there only
  where it was allowed. ``server`` runs it, or answers from a file of a diagnosis instead.
- **console** (``console``): files that a browser gets as they are. They need no build step and
  nothing from elsewhere; names and values are text in them, never markup.

Alone imports the web stack.
"""

from pkray.extras import require_extra

require_extra("serving", "starlette", "pkray serve")
require_extra("serving", "uvicorn", "pkray serve")

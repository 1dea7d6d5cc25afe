"""Serves a warehouse over HTTP: metrics for Prometheus, and a console for people.

::

    browser, Prometheus ──▶ guard ──▶ application ──▶ overview, tables, queries, sql
                                                                   │
                                                                   ▼
                                                            the Python API

- **guard** (``guard``): lets a request in by its host, its origin and its token, before anything
  else sees it; only the health check needs no token.
- **application** (``application``): the paths. What it answers comes from functions that take the
  catalog and give plain data (``overview``, ``tables``, ``queries``, ``sql``); ``cells`` turns
  values into JSON. They read; what changes anything is in ``changes``, and is there only where it
  was allowed. ``server`` runs it.
- **console** (``console``): files that a browser gets as they are. They need no build step and
  nothing from elsewhere; names and values are text in them, never markup.

Alone imports the web stack.
"""

from pkray.extras import require_extra

require_extra("serving", "starlette", "pkray serve")
require_extra("serving", "uvicorn", "pkray serve")

"""Describes a warehouse as people look at it: plain data, which a browser and a file take.

::

    Catalog ──▶ overview, tables, queries ──▶ the console        (pkray.serving)
                        │
                        ▼
                    diagnosis ──▶ one file ──▶ the console elsewhere

- **overview** (``overview``): all tables and queries, what needs attention, the processes.
- **one thing** (``tables``, ``queries``): a table with its snapshots and levels, a query with its
  plan as a graph; ``cells`` turns values into JSON.
- **a diagnosis** (``diagnosis``): all of these at one moment in a file that may be sent to somebody
  else: without rows, and without secrets (``masking``).
"""

from pkray.inspection.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]

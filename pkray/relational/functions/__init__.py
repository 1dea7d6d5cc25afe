"""Functions: what each is called, how it is typed, how it is computed here and on Spark.

::

    name, arguments ──resolve──▶ Call with casts ──kernel──▶ Arrow arrays
                                        └────────spark───▶ Spark SQL

- **function** (`function`): one entry of a table; the modules of a family, such as ``text`` or
  ``nested``, add theirs (`Family.add`) when they are imported. `catalogue` imports all of them, so
  that whoever imports a module of this package finds every function.
- **resolver**: checks a call's arguments, casts them by the dialect's rules (`coercion`) and gives
  the result's type. `signatures.takes` makes one of `Parameter`s.
- **kernel**: computes a batch from arrays and scalars, without a loop over rows.
- **aggregate** (`aggregates`): a value a group, or a row of a window.
"""

from pkray.relational.functions import catalogue

__all__ = ["catalogue"]

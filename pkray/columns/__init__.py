"""Kernels over Arrow columns: what everything above shares, and nothing of tables or plans.

::

    columns ──codes──▶ a number a row, equal for equal values ──▶ groups, joins, distinct rows
        └────ranks──▶ numbers in the order of the values ──▶ sorts, windows, top-n

- **batch** (``batches``): one column after another brought to whole arrays, batches and tables.
- **code, rank** (``keys``): equality and order as numbers. NULLs are equal, NaNs are equal and the
  greatest; lists, structs and maps go by their parts, maps in any order of their entries. Ranks
  take -0.0 for 0.0; codes do not, unless ``one_zero`` makes them one.
- **dense** (``dense``): whole numbers that lie close together, as places in an array.
- **sort key** (``sort_key``): a column, its direction, and where its NULLs stand.
"""

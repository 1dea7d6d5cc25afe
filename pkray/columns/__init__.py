"""Kernels over Arrow columns: what everything above shares, and nothing of tables or plans.

::

    columns ──codes──▶ a number a row, equal for equal values ──▶ groups, joins, distinct rows
        └────ranks──▶ numbers in the order of the values ──▶ sorts, windows, top-n

- **batch** (``batches``): one column after another brought to whole arrays, batches and tables.
- **code, rank** (``keys``): equality and order as numbers. NULLs are equal, NaNs are equal and the
  greatest, zeros are one value; lists, structs and maps go by their parts.
- **dense** (``dense``): whole numbers that lie close together, as places in an array.
- **sort key** (``sort_key``): a column, its direction, and where its NULLs stand.
"""

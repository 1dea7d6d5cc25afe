"""Bring rows as users have them into a table's columns, or refuse them.

`conform` takes Arrow, pandas and dicts and gives an Arrow table of exactly the table's columns and
types; nothing is converted that loses something. `conform_deletes` and `conform_prefixes` do so for
keys. ``python_values`` makes columns of Python objects, ``new_columns`` finds columns that rows
have and the table lacks. Errors are `InputError` and name the column, the row and the value.
"""

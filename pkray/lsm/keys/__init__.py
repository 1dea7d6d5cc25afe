"""Sort, group, search and compare keys of any columns, without a loop over rows.

`NormalizedKeys` are the keys of n rows, encoded as integers that compare as the values do
(``key_encoding``). `RowOrder` sorts a table's rows by key, user sequence and arrival, and gives
`KeyGroups`: row numbers, key after key, which merge engines work on. `Section` (``sections``) is
a set of files whose ranges overlap, to be merged together. `KeyPrefixes` find rows by the beginning
of their key. Arguments are Arrow arrays; results are numpy arrays of row numbers.
"""

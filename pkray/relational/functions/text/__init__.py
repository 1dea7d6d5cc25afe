"""Functions of text.

`strings` has case, length, parts and joining, `search` finds, replaces and splits,
`regular_expressions` and `encodings` do what their names say. `text_function` defines a function
whose arguments are text; `patterns` matches LIKE and regular expressions, `slices` cuts parts by
characters' numbers, for each row its own. Characters are Unicode code points, not bytes.
"""

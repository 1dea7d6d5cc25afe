"""Functions of arrays, maps and rows.

`lists` takes the arrays and maps of a column apart into flat elements with their rows' numbers, and
puts results together again; kernels compute on the flat elements. `nested` has the functions.
"""

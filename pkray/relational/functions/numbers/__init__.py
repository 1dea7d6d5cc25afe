"""Functions of numbers.

`arithmetic` has the operators, `mathematics` roots, logarithms, angles and extremes, `rounding` and
`bits` what their names say. `decimals` computes decimals in 256 bits and rounds half up to the
digits of the result; `exact_sums` adds integers and decimals of any size. Kernels take Arrow arrays
or scalars and leave NULLs where an argument is NULL.
"""

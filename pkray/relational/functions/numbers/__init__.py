"""Functions of numbers.

::

    numbers of two types ──operators.numbers──▶ one type ──▶ arithmetic, division, signs
                                                └▶ decimals: in 256 bits, rounded half up

- ``arithmetic`` has the operators, ``division`` quotients and rests, ``signs`` what its name says;
  ``operators`` is what they share. ``mathematics`` has roots, logarithms, angles and extremes,
  ``rounding`` and ``bits`` what their names say.
- `decimals` computes decimals and rounds them to the digits of the result; `exact_sums` adds
  integers and decimals of any size.
- Kernels take Arrow arrays or scalars and leave NULLs where an argument is NULL.
"""

"""Casts: which there are, and how they are computed.

::

    CAST ──casting.cast──▶ plan.expressions.Cast ──kernels.cast_kernel──▶ numbers, times

- `casting` says what a dialect means by CAST.
- **converter** (`kernels.converter`): casts an array and marks the values that do not fit; these
  are an error, NULL for TRY_CAST, or wrap, as the plan says. It does as Spark's ANSI mode.
- `parsing` reads texts as values, `writing` writes values as text.
"""

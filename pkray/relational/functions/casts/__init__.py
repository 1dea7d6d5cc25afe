"""Casts: which there are, and how they are computed.

`casting` says what a dialect means by CAST; `kernels` computes one as Spark's ANSI mode does:
`parsing` reads texts as values, `writing` writes values as text. A value that does not fit is an
error, NULL for TRY_CAST, or wraps, as the plan says.
"""

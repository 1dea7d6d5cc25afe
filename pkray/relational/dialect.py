"""The dialects that people write queries in."""

from enum import StrEnum


class Dialect(StrEnum):
    """Names the rules that a query's types and NULLs follow.

    ``spark``, the default: SUM(INT) is BIGINT, AVG(INT) is DOUBLE, ``/`` gives DOUBLE or DECIMAL,
    overflow fails (ANSI), NULLs come first in ascending order and last in descending, 0.0 and -0.0
    are one group, names are found whatever their case.

    ``flink``: SUM(INT) is INT and wraps, AVG(INT) is INT and truncates, SUM(DECIMAL(p, s)) is
    DECIMAL(38, s), INT / INT truncates, -0.0 and 0.0 are two groups and NaN is one, NULLs come
    first in ascending order and last in descending, names are found as they are written.
    """

    SPARK = "spark"
    FLINK = "flink"

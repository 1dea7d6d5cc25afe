"""Matching of text: LIKE patterns and regular expressions."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import EvaluationError
from pkray.relational.functions.function import Value
from pkray.relational.functions.values import as_array
from pkray.relational.plan.expressions import Call

ANY, ONE = "%", "_"


def by_pattern(
    texts: Value,
    patterns: Value,
    compute: Callable[[Value, Any], Value],
    kind: pa.DataType,
    rows: int,
) -> Value:
    """Compute for each distinct pattern what it gives for its texts; NULL where one is NULL."""
    if isinstance(patterns, pa.Scalar):
        if not patterns.is_valid:
            return pa.scalar(None, kind)
        return compute(texts, patterns.as_py())
    texts = as_array(texts, rows)
    result = pa.nulls(rows, kind)
    for pattern in patterns.unique().drop_null():
        chosen = pc.and_(pc.fill_null(pc.equal(patterns, pattern), False), texts.is_valid())
        if not chosen.true_count:
            continue
        some = as_array(compute(texts.filter(chosen), pattern.as_py()), chosen.true_count)
        result = pc.replace_with_mask(result, chosen, some)
    return result


def like_parts(pattern: str, escape: str) -> list[str | None]:
    """Split a LIKE pattern: text stands for itself, ``%`` and ``_`` become None and "".

    Raises:
        EvaluationError: the escape character stands before what needs none.
    """
    parts: list[str | None] = []
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        if escape and letter == escape:
            index += 1
            following = pattern[index : index + 1]
            if following not in (ANY, ONE, escape) or not following:
                raise EvaluationError(
                    f"the pattern {pattern!r} has {escape!r} before what is neither % nor _ nor "
                    f"{escape!r}: double it"
                )
            parts.append(following)
        elif letter == ANY:
            parts.append(None)
        else:
            parts.append("" if letter == ONE else letter)
        index += 1
    return parts


def like_regex(pattern: str, escape: str) -> str:
    """Write a LIKE pattern as a regular expression."""
    parts = like_parts(pattern, escape)
    body = "".join(
        ".*" if part is None else "." if part == "" else re.escape(part) for part in parts
    )
    return rf"(?s)\A{body}\z"


def plain_like(texts: Value, pattern: str, escape: str) -> Value | None:
    """Match patterns that need no regular expression: ``a``, ``a%``, ``%a``, ``%a%``."""
    parts = like_parts(pattern, escape)
    first, last = parts[:1] == [None], parts[-1:] == [None]
    middle = parts[first : len(parts) - last] if len(parts) > 1 else ([] if first else parts)
    if any(not part for part in middle):
        return None
    body = "".join(part or "" for part in middle)
    if first and (last or not body):
        return pc.match_substring(texts, body)
    if last:
        return pc.starts_with(texts, body)
    return pc.ends_with(texts, body) if first else pc.equal(texts, body)


def match_regex(call: Call, texts: Value, pattern: str, *, ignore_case: bool = False) -> Value:
    """Tell for each text whether a part of it matches.

    Raises:
        EvaluationError: the pattern is none.
    """
    return regex(
        call, pattern, lambda: pc.match_substring_regex(texts, pattern, ignore_case=ignore_case)
    )


def regex(call: Call, pattern: str, compute: Callable[[], Value]) -> Value:
    """Run what uses a regular expression.

    Raises:
        EvaluationError: the pattern is none, or has what RE2 lacks, such as looking around.
    """
    try:
        return compute()
    except pa.ArrowInvalid as error:
        raise EvaluationError(
            f"{call.function} cannot use the regular expression {pattern!r}: {error}",
            function=call.function,
        ) from None

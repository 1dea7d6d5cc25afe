"""The error of sums and means that do not fit their type: one text, whoever computes them."""

from collections.abc import Sequence

from pkray.errors import EvaluationError
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall, WindowCall


def unfit_sum(
    call: AggregateCall | WindowCall, total: int, scale: int, group: str = ""
) -> EvaluationError:
    """Say that a sum does not fit; the sum of a mean of decimals has 38 digits at most."""
    if not facts(call.function).is_mean:
        return unfit(call.function, call.arguments, str(call.type), total, scale, group)
    return unfit("sum", call.arguments, f"DECIMAL(38, {scale})", total, scale, group)


def unfit(
    function: str, arguments: Sequence[str], kind: str, total: int, scale: int, group: str = ""
) -> EvaluationError:
    """Say that a sum or a mean does not fit its type.

    Args:
        function: the canonical name, such as ``sum_wrapping``; people read the one they write.
        total: the value as a whole number, to be divided by 10^scale.
        group: its keys; empty where there are none.
    """
    written = function.partition("_wrapping")[0].partition("_truncating")[0]
    digits = str(abs(total)).rjust(scale + 1, "0")
    point = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    value = f"{'-' if total < 0 else ''}{point}"
    where = f" of the group {group}" if group else ""
    return EvaluationError(
        f"{written}({', '.join(arguments)}){where} is {value}, which {kind} cannot hold: cast the "
        "column to a wider type, such as DECIMAL(38, 0) or DOUBLE",
        function=written,
        group=group,
        value=value,
    )

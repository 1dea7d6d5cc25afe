"""Functions that are refused, since windows are table functions here."""

from pkray.errors import UnsupportedError
from pkray.relational.functions.function import Written
from pkray.relational.functions.time.arguments import TIME
from pkray.relational.plan.expressions import Expression

_TABLE_FUNCTION = (
    "write FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10' MINUTES)) "
    "GROUP BY window_start, window_end"
)
_ENDS = [
    f"{kind}_{end}"
    for kind in ("tumble", "hop", "session")
    for end in ("start", "end", "rowtime", "proctime")
]


def _instead(call: Written) -> Expression:
    name = call.name
    remedy = _TABLE_FUNCTION + (" and read window_start, window_end" if name in _ENDS else "")
    raise UnsupportedError(f"{name.upper()} is not supported: {remedy}", function=name)


for _name in (
    *("window", "session_window", "window_time", "tumble", "hop", "session", "cumulate"),
    *_ENDS,
):
    TIME.alias(f"{_name}(…)", "Is refused: windows are table functions.", _instead)

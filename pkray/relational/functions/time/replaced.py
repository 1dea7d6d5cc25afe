"""Functions that are refused, since windows are table functions here."""

from pkray.errors import UnsupportedError
from pkray.relational.functions.function import Resolver, Written
from pkray.relational.functions.time.arguments import TIME
from pkray.relational.plan.expressions import Expression


def _instead(name: str, remedy: str) -> Resolver:
    def resolve(call: Written) -> Expression:
        raise UnsupportedError(f"{name.upper()} is not supported: {remedy}", function=name)

    return resolve


_TABLE_FUNCTION = (
    "write FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10' MINUTES)) "
    "GROUP BY window_start, window_end"
)
for _name in ("window", "session_window", "window_time", "tumble", "hop", "session", "cumulate"):
    TIME.alias(
        f"{_name}(…)", "Is refused: windows are table functions.", _instead(_name, _TABLE_FUNCTION)
    )
for _kind_name in ("tumble", "hop", "session"):
    for _end in ("start", "end", "rowtime", "proctime"):
        _name = f"{_kind_name}_{_end}"
        TIME.alias(
            f"{_name}(…)",
            "Is refused: windows are table functions.",
            _instead(_name, _TABLE_FUNCTION + " and read window_start, window_end"),
        )

"""Options of queries, which SET and RESET change in one catalog object."""

import difflib
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pkray.errors import OptionError
from pkray.options.values import BOOLEAN, DURATION, HTTP_URL, Kind, choice, integer, size


@dataclass(frozen=True)
class Setting:
    """One option: what it takes, its default and its meaning.

    Attributes:
        secret: whether a value may hold what errors must not show.
    """

    key: str
    kind: Kind
    default: str | None
    about: str
    secret: bool = False


MEMORY = size("1 kb", "1024 tb")
"""Below it a batch of rows finds no room; above it no machine has what is meant."""

MOST_WORKERS = 1024
"""As many as keys are divided into: more would have none to work on."""


OTHER_NAMES = {"spark.sql.session.timezone": "table.local-time-zone"}
"""What other engines call an option, in small letters."""


def _zone(text: str) -> str:
    if re.fullmatch(r"[+-]((0\d|1[0-7]):[0-5]\d|18:00)", text):
        return text
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(text) from None
    return text


def _rows(text: str) -> int:
    return -1 if text == "-1" else int(integer(1).parse(text))


def _path(text: str) -> str:
    if not text or not text.isprintable():
        raise ValueError(text)
    return text


def _processors(text: str) -> float:
    number = float(text)
    if not 0.001 <= number <= 10_000:
        raise ValueError(text)
    return number


SETTINGS = {
    each.key: each
    for each in (
        Setting(
            "execution.runtime-mode",
            choice("batch", "streaming"),
            "streaming",
            "Whether EXECUTE PLAN and INSERT on the command line run once, or go on.",
        ),
        Setting(
            "execution.memory",
            MEMORY,
            None,
            "What a query in this process holds, about; more goes to the local disk. If unset, "
            "half of the machine's.",
        ),
        Setting(
            "table.exec.state.ttl", DURATION, "0 ms", "Time after which idle state goes; 0: never."
        ),
        Setting(
            "table.exec.emit.early-fire.enabled",
            BOOLEAN,
            "false",
            "Whether aggregates of windows are given before the windows are over.",
        ),
        Setting(
            "table.exec.emit.early-fire.delay",
            DURATION,
            "0 ms",
            "Time after which they are given, and given again where they change.",
        ),
        Setting(
            "table.exec.emit.allow-lateness",
            DURATION,
            "0 ms",
            "Event time after its end for which a window still takes rows.",
        ),
        Setting(
            "table.exec.emit.late-fire.enabled",
            BOOLEAN,
            "false",
            "Whether aggregates wait for the delay below until they change for such rows.",
        ),
        Setting(
            "table.exec.emit.late-fire.delay",
            DURATION,
            "0 ms",
            "Time after which aggregates of windows that are over change.",
        ),
        Setting(
            "table.exec.source.cdc-events-duplicate",
            BOOLEAN,
            "false",
            "Whether sources may tell of a change more than once; by their keys it counts once, "
            "and rows before updates say nothing.",
        ),
        Setting(
            "table.exec.sink.not-null-enforcer",
            choice("error", "drop"),
            "error",
            "Whether an INSERT fails on NULL in a column without NULLs, or leaves the row out.",
        ),
        Setting(
            "query.backfill-engine",
            choice("local", "spark"),
            "local",
            "Engine that reads what tables hold when a continuous query begins.",
        ),
        Setting(
            "query.failure-url",
            HTTP_URL,
            None,
            "HTTP or HTTPS URL to which a query that fails posts query, node, error and epoch.",
            secret=True,
        ),
        Setting(
            "query.parallelism",
            integer(1, MOST_WORKERS),
            None,
            "Workers of a continuous query, from its next start on. If unset, as many as before; "
            "at first one, in a cluster one a processor, 4 at most.",
        ),
        Setting(
            "query.memory",
            MEMORY,
            None,
            "Memory of all workers of a query: half of it holds rows of state, and in a cluster it "
            "is reserved. If unset, 256 MB of rows a worker.",
        ),
        Setting(
            "query.cpus",
            Kind("number", _processors, "a number of 0.001 to 10000, such as 2 or 0.5"),
            None,
            "Processors that a cluster reserves for all workers of a query. If unset, none.",
        ),
        Setting(
            "execution.checkpointing.interval",
            DURATION,
            "30 s",
            "Time after which a continuous query writes its state down.",
        ),
        Setting(
            "table.exec.source.idle-timeout",
            DURATION,
            "0 ms",
            "Time without changes after which a source no longer holds the watermark of a "
            "continuous query back; 0: never. A table's scan.watermark.idle-timeout goes before.",
        ),
        Setting(
            "table.exec.mini-batch.enabled",
            BOOLEAN,
            "false",
            "Whether the two options below bound the epochs of continuous queries.",
        ),
        Setting(
            "table.exec.mini-batch.allow-latency",
            DURATION,
            None,
            "Time between the beginnings of two epochs, where no trigger is given.",
        ),
        Setting(
            "table.exec.mini-batch.size",
            Kind("integer", _rows, "a whole number of at least 1, or -1 for no bound"),
            None,
            "Most changed rows of a table that an epoch takes, where max_rows is not given.",
        ),
        Setting(
            "table.local-time-zone",
            Kind("time zone", _zone, "a zone such as 'Europe/Berlin' or '+02:00'"),
            "UTC",
            "Zone of TIMESTAMP_LTZ as text, days and hours.",
        ),
        Setting(
            "sql.plan-paths",
            Kind("path", _path, "a folder or a URL"),
            None,
            "Folder or URL below which plan files may lie.",
        ),
    )
}


def checked_setting(key: str, value: str) -> str:
    """Check the value of an option.

    Raises:
        OptionError: no such option (the nearest is said), or a value that it does not take.
    """
    setting = SETTINGS.get(key)
    if setting is None:
        near = difflib.get_close_matches(key, SETTINGS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(SETTINGS))}"
        raise OptionError(f"queries have no option {key!r}; {hint}", key=key)
    try:
        setting.kind.parse(value)
    except ValueError:
        shown = {} if setting.secret else {"value": value}
        what = "this" if setting.secret else repr(value)
        raise OptionError(
            f"option {key!r} cannot be {what}: it takes {setting.kind.allowed}", key=key, **shown
        ) from None
    return value

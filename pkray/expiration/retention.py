"""Finds the snapshots and the changelogs that have been kept for long enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pkray.arguments.whole_number import whole_number
from pkray.errors import OptionError
from pkray.options import TableOptions


@dataclass(frozen=True)
class Retention:
    """The number of snapshots or changelogs that are kept, and the time.

    Args:
        num_min: so many of the newest are kept whatever their age.
        num_max: more than so many are not kept, however young.
        time_millis: between the two, how long each is kept.
        limit: expired at once.

    Raises:
        OptionError: ``num_min`` exceeds ``num_max``.
    """

    num_min: int
    num_max: int
    time_millis: int
    limit: int

    def __post_init__(self) -> None:
        if self.num_min > self.num_max:
            raise OptionError(
                f"at least {self.num_min} snapshots are to be kept but at most {self.num_max}: "
                "raise snapshot.num-retained.max or lower snapshot.num-retained.min",
                num_min=self.num_min,
                num_max=self.num_max,
            )

    def outlives(self, other: Retention) -> bool:
        """Whether anything is kept longer by this than by the other."""
        return (
            self.num_max > other.num_max
            or self.num_min > other.num_min
            or self.time_millis > other.time_millis
        )


def snapshot_retention(options: TableOptions) -> Retention:
    """Read what ``snapshot.num-retained.*``, ``.time-retained`` and ``.expire.limit`` ask for."""
    return Retention(
        num_min=options.snapshot_num_retained_min,
        num_max=options.snapshot_num_retained_max,
        time_millis=options.snapshot_time_retained,
        limit=options.snapshot_expire_limit,
    )


def asked_retention(
    options: TableOptions,
    num_max: int | None,
    num_min: int | None,
    time_millis: int | None,
    limit: int | None,
) -> Retention:
    """Take what a user asks for; what is None as `snapshot_retention`.

    Raises:
        OptionError: ``num_min`` above ``num_max``, or one below 1.
    """
    for name, value in {"retain_max": num_max, "retain_min": num_min, "max_deletes": limit}.items():
        if value is not None:
            whole_number(name, value, 1)
    usual = snapshot_retention(options)
    most = _either(num_max, usual.num_max)
    return Retention(
        # As little as the user said to keep at most, unless a least number was said too.
        num_min=_either(num_min, min(usual.num_min, most)),
        num_max=most,
        time_millis=_either(time_millis, usual.time_millis),
        limit=_either(limit, usual.limit),
    )


def changelog_retention(options: TableOptions, snapshots: Retention) -> Retention:
    """Read what ``changelog.num-retained.*`` and ``.time-retained`` ask for; default as the
    snapshots.

    What is less than the snapshots' has no effect: the changelog of a snapshot stays with it.
    """
    num_min = _either(options.changelog_num_retained_min, snapshots.num_min)
    return Retention(
        num_min=num_min,
        num_max=max(num_min, _either(options.changelog_num_retained_max, snapshots.num_max)),
        time_millis=_either(options.changelog_time_retained, snapshots.time_millis),
        limit=snapshots.limit,
    )


def _either(own: int | None, otherwise: int) -> int:
    return otherwise if own is None else own


def first_kept(
    earliest: int,
    latest: int,
    retention: Retention,
    now: int,
    time_of: Callable[[int], int | None],
    protected: int | None = None,
) -> int:
    """Find the oldest id to keep; all from ``earliest`` up to it may go.

    Args:
        latest: the newest snapshot's id, from which numbers are counted.
        now: epoch milliseconds.
        time_of: when an id was made, epoch milliseconds; None where it is not there.
        protected: this id and later ones are kept: a consumer has still to read them.
    """
    end = min(latest - retention.num_min + 1, earliest + retention.limit)
    if protected is not None:
        end = min(end, protected)
    for number in range(max(latest - retention.num_max + 1, earliest), end):
        made = time_of(number)
        if made is not None and made >= now - retention.time_millis:
            return number
    return max(end, earliest)

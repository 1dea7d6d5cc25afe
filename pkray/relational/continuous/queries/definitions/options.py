"""Options of a query: when its epochs begin, and what they may take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from pkray.errors import OptionError
from pkray.options.values import SIZE, duration_millis
from pkray.relational.continuous.queries.definitions.failure_hooks import (
    OnFailure,
    check_failure_url,
)

IDLE_TIMEOUT = "table.exec.source.idle-timeout"
"""The setting of `QueryOptions.idle_timeout`."""


@dataclass(frozen=True)
class Trigger:
    """Decides when an epoch begins.

    Attributes:
        interval: seconds between the beginnings of two epochs; 0: as soon as there are changes.
        ends: whether the query stops at what the sources held when it began.
    """

    interval: float = 0.0
    ends: bool = False


@dataclass(frozen=True)
class QueryOptions:
    """Say how a query runs.

    Attributes:
        trigger: ``changes``, ``available_now`` or an interval such as ``5 s``.
        max_rows: most changed rows an epoch; None: no bound.
        on_error: ``stop``, or ``skip`` rows that cannot be computed, which are kept aside.
        failure_url: where JSON is posted when the query fails.
        backfill: which engine reads what the tables hold when it begins, ``local`` or ``spark``.
        parallelism: workers that share the work; None: as many as before, or as the place says: one
            beside others, one a processor, four at most, in processes of its own.
        memory: bytes that all workers take; None: not said.
        cpus: processors that are reserved for all workers; None: none.
        clock: processing time in epoch milliseconds; None: that of the machine.
        on_failure: called when the query fails, where it runs in this process.
        idle_timeout: milliseconds without changes after which a source no longer holds the
            watermark back, where its table says no other; 0: never.
    """

    trigger: str = "changes"
    max_rows: int | None = None
    on_error: str = "stop"
    checkpoint_epochs: int = 100
    checkpoint_seconds: float = 30.0
    failure_url: str | None = None
    backfill: str | None = None
    parallelism: int | None = None
    memory: int | None = None
    cpus: float | None = None
    clock: Callable[[], int] | None = None
    on_failure: OnFailure | None = None
    idle_timeout: int = 0

    def bounded_by(self, settings: Mapping[str, str]) -> Self:
        """Take what SET has set: bounds of epochs and checkpoints, when a source is idle, the
        engine of the backfill, the URL for failures, and how many workers take what.
        """
        url, interval = settings.get("query.failure-url"), None
        if "execution.checkpointing.interval" in settings:
            interval = duration_millis(settings["execution.checkpointing.interval"]) / 1000
        idle = settings.get(IDLE_TIMEOUT)
        taken = replace(
            self,
            backfill=self.backfill or settings.get("query.backfill-engine"),
            failure_url=self.failure_url or (check_failure_url(url) if url is not None else None),
            checkpoint_seconds=self.checkpoint_seconds if interval is None else interval,
            idle_timeout=self.idle_timeout if idle is None else duration_millis(idle),
        )
        return taken.placed_by(settings)._batched_by(settings)

    def placed_by(self, settings: Mapping[str, str]) -> Self:
        """Take how many workers SET wants, and what they may take."""
        said: dict[str, Any] = {
            name: read(settings[f"query.{name}"])
            for name, read in (("parallelism", int), ("memory", SIZE.parse), ("cpus", float))
            if f"query.{name}" in settings
        }
        return replace(self, **said)

    def _batched_by(self, settings: Mapping[str, str]) -> Self:
        if settings.get("table.exec.mini-batch.enabled", "false").lower() != "true":
            return self
        latency = settings.get("table.exec.mini-batch.allow-latency")
        size = int(settings.get("table.exec.mini-batch.size", "-1"))
        return replace(
            self,
            trigger=latency if latency and self.trigger == "changes" else self.trigger,
            max_rows=size if size > 0 and self.max_rows is None else self.max_rows,
        )

    def kept(self) -> dict[str, Any]:
        """Give what is stored with a query: all but functions."""
        names = [each.name for each in fields(self) if each.name not in ("clock", "on_failure")]
        return {name: getattr(self, name) for name in names}

    def trigger_of(self) -> Trigger:
        """Read the trigger.

        Raises:
            OptionError: it is none, or the bound of an epoch is below 1.
        """
        if self.max_rows is not None and self.max_rows < 1:
            raise OptionError(
                f"max_rows cannot be {self.max_rows}: an epoch takes 1 row at least, or None",
                value=self.max_rows,
            )
        if self.trigger in ("changes", "available_now"):
            return Trigger(ends=self.trigger == "available_now")
        try:
            return Trigger(duration_millis(self.trigger) / 1000)
        except ValueError:
            raise OptionError(
                f"trigger cannot be {self.trigger!r}: use 'changes', 'available_now' or an "
                "interval such as '5 s'",
                value=self.trigger,
            ) from None

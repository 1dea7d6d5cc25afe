"""Options of a query: when its epochs begin, and what they may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pkray.errors import OptionError
from pkray.options.values import duration_millis
from pkray.relational.continuous.queries.failure_hooks import OnFailure, check_failure_url

IDLE_TIMEOUT = "table.exec.source.idle-timeout"
"""The setting of `QueryOptions.idle_timeout`."""


@dataclass(frozen=True)
class Trigger:
    """When an epoch begins.

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
    clock: Callable[[], int] | None = None
    on_failure: OnFailure | None = None
    idle_timeout: int = 0

    def bounded_by(self, settings: Mapping[str, str]) -> QueryOptions:
        """Take the bounds of epochs and checkpoints, when a source is idle, the engine of the
        backfill and the URL for failures that SET has set.
        """
        backfill = settings.get("query.backfill-engine")
        if backfill is not None and self.backfill is None:
            return replace(self, backfill=backfill).bounded_by(settings)
        url = settings.get("query.failure-url")
        if url is not None and self.failure_url is None:
            return replace(self, failure_url=check_failure_url(url)).bounded_by(settings)
        chosen = self
        interval = settings.get("execution.checkpointing.interval")
        if interval is not None:
            chosen = replace(chosen, checkpoint_seconds=duration_millis(interval) / 1000)
        if IDLE_TIMEOUT in settings:
            chosen = replace(chosen, idle_timeout=duration_millis(settings[IDLE_TIMEOUT]))
        return chosen._batched_by(settings)

    def _batched_by(self, settings: Mapping[str, str]) -> QueryOptions:
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
            OptionError: it is none.
        """
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

"""List the methods of a pool's keeper: see `Assignments`."""
# mypy: disable-error-code="empty-body"
# Stubs are never run.

from collections.abc import Mapping
from typing import Any

from pkray.service.handles.handle import Client, Group, method
from pkray.service.pool.overview import Overview
from pkray.service.pool.parts import Assignment, HostedThing, Part, Renewal, WorkerProcess
from pkray.service.versions import Spoken

_ASK = Group("ask", threads=4)
_RENEW = Group("renew", threads=4)


class KeeperClient(Client):
    """The methods of a pool's keeper."""

    @method(_ASK, is_short=True)
    def greet(self, caller: Spoken) -> Spoken:
        """Say what the keeper speaks to a caller that it understands."""

    @method(_ASK, is_short=True)
    def open(self, table: HostedThing) -> HostedThing:
        """Host a table; return it as it is hosted, perhaps since before."""

    @method(_ASK, is_short=True)
    def has(self, key: str) -> bool:
        """Whether a table, or work, is hosted."""

    @method(_ASK, is_short=True)
    def locate(self, table: HostedThing, index: int) -> Assignment:
        """Find the worker that has a part; assign it where no worker that lives has it."""

    @method(_RENEW, is_short=True)
    def claim(
        self, worker: int, process: WorkerProcess, part: Part
    ) -> tuple[Assignment | None, HostedThing | None]:
        """Say where a part is, to a worker that was called for it."""

    @method(_RENEW, is_short=True)
    def renew(self, worker: int, process: WorkerProcess, held: Mapping[Part, int]) -> Renewal:
        """Extend a worker's lease, for all parts that are still its own."""

    @method(_ASK, is_short=True)
    def move(self, part: Part, number: int) -> None:
        """Take a part from the worker that has it under this number."""

    @method(_ASK, is_short=True)
    def confirm(self, numbers: Mapping[Part, int]) -> Mapping[Part, int]:
        """Return those of the parts that are assigned under other numbers by now."""

    @method(_ASK, is_short=True)
    def release(self, table: str) -> dict[Part, Assignment]:
        """Host a table, or work, no longer; the parts that workers may still have."""

    @method(_ASK, is_short=True)
    def released(self) -> dict[Part, Assignment]:
        """Host nothing any longer; the parts that workers may still have."""

    @method(_ASK, is_short=True)
    def drain_node(self, node: str, drained: bool) -> None:
        """Have the workers of a node get no parts, and lose those that they have; or no longer."""

    @method(_ASK, is_short=True)
    def retire(self, worker: int, token: str) -> int:
        """Have one process get no more parts, and lose those that it has; how many these are."""

    @method(_ASK, is_short=True)
    def hold(self) -> None:
        """Put off the end of a pool that has no tables."""

    @method(_ASK, is_short=True)
    def overview(self) -> Overview:
        """Tell what there is, for people."""

    @method(_ASK, is_short=True)
    def dropped(self, part: Part, number: int) -> None:
        """Note that the worker which had a part under this number has dropped it."""


_WORK = Group("work", threads=32)


class WorkClient(Client):
    """The methods of work: see `Work`."""

    @method(_WORK, is_short=True)
    def status(self) -> tuple[bool, dict[str, Any]]:
        """Say whether it may still do something, and what it does."""

    @method(_WORK)
    def keep(self, seconds: float) -> bool:
        """Write down what it has; false where that takes longer."""

    @method(_WORK)
    def stop(self, seconds: float) -> bool:
        """End it; false where that takes longer."""

    @method(_WORK)
    def do(self, name: str, *arguments: Any) -> Any:
        """Call a method of it."""

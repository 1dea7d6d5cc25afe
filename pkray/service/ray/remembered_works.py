"""Remember the work that a pool hosts beside the cluster's nodes, for its next keeper."""

import logging
from typing import Any

import msgspec
from ray.experimental import internal_kv as kv

from pkray.service.pool.parts import HostedWork

_log = logging.getLogger(__name__)

_kv: Any = kv  # it has no types


class RememberedWorks:
    """The work that the keepers of one pool host; for a process of the cluster.

    It outlives keeper and workers, not the cluster. Work that was ended meanwhile ends by itself
    when it is opened: what people want of it stands where it keeps its results.

    Args:
        pool: its name.
    """

    def __init__(self, pool: str) -> None:
        self._prefix = f"{pool}-work-"

    def all(self) -> list[HostedWork]:
        """List what was kept and not forgotten; without what another version kept."""
        found = (_read(key) for key in _kv._internal_kv_list(self._prefix))
        return [each for each in found if each is not None]

    def keep(self, work: HostedWork) -> None:
        """Keep work, as whoever opens it has to know it."""
        _kv._internal_kv_put(
            f"{self._prefix}{work.name}", msgspec.msgpack.encode(work), overwrite=True
        )

    def forget(self, name: str) -> None:
        """Forget the work of this name, and that whose names go on with a slash."""
        _kv._internal_kv_del(f"{self._prefix}{name}")
        _kv._internal_kv_del(f"{self._prefix}{name}/", del_by_prefix=True)

    def forget_all(self) -> None:
        """Forget all of the pool's work."""
        _kv._internal_kv_del(self._prefix, del_by_prefix=True)


def _read(key: bytes) -> HostedWork | None:
    data = _kv._internal_kv_get(key)
    try:
        return msgspec.msgpack.decode(data, type=HostedWork) if data else None
    except msgspec.DecodeError as error:
        _log.warning("work of the pool is left to whoever begins it again: %s", error)
        return None

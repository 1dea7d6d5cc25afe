"""The state of a table that a lookup sees."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from pkray.errors import OptionError
from pkray.service.client.lookup_client import LookupClient
from pkray.service.protocol import Visibility


class LookupState:
    """Rows by key as the owners see them: of a snapshot, or with what is not committed.

    Args:
        client: starts the service, where it does not run.
        snapshot_id: answer from this snapshot; by default from the newest.
    """

    def __init__(
        self,
        client: Callable[[], LookupClient],
        visibility: Visibility,
        snapshot_id: int | None = None,
    ) -> None:
        self._client = client
        self._visibility = visibility
        self._snapshot_id = snapshot_id

    def find(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """As `LookupClient.find`."""
        return self._client().find(keys, wanted, self._visibility, self._snapshot_id)

    def find_prefixes(self, keys: pa.Table, wanted: pa.Schema) -> pa.Table:
        """As `LookupClient.find_prefixes`."""
        return self._client().find_prefixes(keys, wanted, self._visibility, self._snapshot_id)


def check_visibility(visibility: Visibility, names_moment: bool) -> None:
    """What a lookup may ask.

    Raises:
        OptionError: the visibility is another word, or a moment goes with ``latest``.
    """
    if visibility not in ("latest", "committed"):
        raise OptionError(
            f"visibility {visibility!r} is unknown: use 'latest' or 'committed'", value=visibility
        )
    if names_moment and visibility == "latest":
        raise OptionError(
            "snapshot_id, tag, timestamp and watermark go with visibility='committed' only",
            visibility=visibility,
            arguments=("snapshot_id", "tag", "timestamp", "visibility='committed'"),
        )

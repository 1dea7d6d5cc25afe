"""Pages of rows whose moment has come, cut where moments end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pkray.relational.continuous.operators.windows.waiting import Due


class DuePages:
    """Cuts pages, which are in the order of their moments."""

    def __init__(self, pages: Iterator[Due]) -> None:
        self._pages = pages
        self._page = next(pages, None)

    def last_whole(self) -> int | None:
        """Give the last moment of which all rows are read; if there is none yet, the first moment.
        None: there are no more rows."""
        if self._page is None:
            return None
        times = self._page.times
        whole = int(np.searchsorted(times, times[-1]))
        return int(times[whole - 1 if whole else 0])

    def up_to(self, moment: int) -> Iterator[Due]:
        """Give the rows of this moment and of those before it."""
        while self._page is not None:
            page = self._page
            count = int(np.searchsorted(page.times, moment, side="right"))
            if count:
                yield Due(page.times[:count], page.rows.slice(0, count))
            if count < len(page.times):
                self._page = Due(page.times[count:], page.rows.slice(count))
                return
            self._page = next(self._pages, None)

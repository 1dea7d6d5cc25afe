"""Runs one query without end twice: cancelled from another thread, and interrupted by SIGINT.

    python tests/integration/relational/cancelled.py QUERY

Prints how long each took to end, in seconds, as JSON; and the peak of resident memory in bytes.
"""

import json
import os
import resource
import signal
import sys
import threading
import time

import numpy as np
import pyarrow as pa

from pkray.errors import QueryCancelledError
from pkray.relational import Cancellation, from_arrow, query
from tests.integration.relational.memory_peak import resident

AFTER = 0.5
"""Seconds after which a query is ended."""
MOST_BYTES = 4 << 30
"""Of address space, of which allocators and threads reserve much; the peak is reported beside."""
ROWS = 200_000


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    rows = from_arrow(
        pa.table({"k": np.zeros(ROWS, np.int64), "v": np.arange(ROWS), "t": ["abc"] * ROWS})
    )
    relation = query(sys.argv[1], a=rows, b=rows, c=rows)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    token = Cancellation()
    ended = {
        "cancelled": ended_after(
            lambda: relation.to_arrow(cancellation=token, memory=1 << 26),
            token.cancel,
            QueryCancelledError,
        )
    }
    ended["interrupted"] = ended_after(
        lambda: relation.to_arrow(memory=1 << 26),
        lambda: os.kill(os.getpid(), signal.SIGINT),
        KeyboardInterrupt,
    )
    print(
        json.dumps(
            {
                **ended,
                "peak": resident("VmHWM"),  # ru_maxrss begins with the parent's, whose size is any
                "at": time.time(),
            }
        )
    )


def ended_after(run: object, end: object, error: type[BaseException]) -> float:
    at: list[float] = []

    def ending() -> None:
        at.append(time.monotonic())
        end()

    timer = threading.Timer(AFTER, ending)
    timer.start()
    try:
        run()
    except error:
        return time.monotonic() - at[0]
    raise AssertionError("the query ended by itself")


if __name__ == "__main__":
    main()

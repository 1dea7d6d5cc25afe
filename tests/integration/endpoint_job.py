"""A job that commits numbered changes, and a query that follows it: both go on where they were.

    python -m tests.integration.endpoint_job URL LAST    the store's options as JSON by stdin

Ends with 0 once the change ``LAST`` is committed and in the query's result, and with 3 where pkray
raised an error of its own: the job is to be begun again.
"""

import json
import sys
from collections import Counter
from typing import Any

import pkray
from pkray.errors import PkrayError, QueryNotFoundError

QUERY = "SELECT v % 3 AS side, COUNT(*) AS n FROM db.t GROUP BY v % 3"
SECONDS = 120


def changed(number: int) -> list[int]:
    """The keys that a change writes."""
    return sorted({(number * 7 + each * each) % 40 for each in range(6)})


def rows_after(last: int) -> dict[int, int]:
    """What the table holds after a change, by key."""
    return {key: number for number in range(1, last + 1) for key in changed(number)}


def opened(url: str, options: dict[str, Any]) -> pkray.Catalog:
    return pkray.connect(url, runtime_options={"owners": 1}, **options)


def run(url: str, options: dict[str, Any], last: int) -> None:
    with opened(url, options) as catalog:
        table = catalog.load_table("db.t")
        try:
            query = catalog.query("db.sides").resume()
        except QueryNotFoundError:
            query = catalog.sql(QUERY).materialize("db.sides", options={"bucket": "1"})
        done = max(table.to_arrow(["v"])["v"].to_pylist(), default=0)
        with table.open_writer("job") as writer:
            for number in range(done + 1, last + 1):
                writer.upsert([{"k": key, "v": number} for key in changed(number)])
                writer.commit(number)
        newest = table.latest_snapshot()
        assert newest is not None
        query.wait({"db.t": newest.id}, timeout=SECONDS)
        query.stop()


def sides(last: int) -> Counter[tuple[int, int]]:
    """What the query's result holds after a change."""
    found = Counter(number % 3 for number in rows_after(last).values())
    return Counter(found.items())


if __name__ == "__main__":
    try:
        run(sys.argv[1], json.load(sys.stdin), int(sys.argv[2]))
    except PkrayError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(3)

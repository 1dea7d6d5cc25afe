"""Replays random queries: ``python -m tests.integration.relational.random_queries FIRST [END]``.

Without END, prints the query and its tables, and what its oracles say; else says which seeds fail.
"""

import sys
import traceback
from collections import Counter

from tests.integration.relational.random_queries.oracles import RandomQuery
from tests.node_schemas import watch_nodes


def main(first: int, end: int | None = None) -> int:
    watch_nodes()
    if end is None:
        made = RandomQuery(first)
        print(made)
        print(made.compare())
        return 0
    told, failed = Counter[str](), 0
    for seed in range(first, end):
        made = RandomQuery(seed)
        try:
            outcome = made.compare()
        except Exception as error:  # what is no error of pkray's is what is looked for
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {error}".replace("\n", " ")[:600])
            if not isinstance(error, AssertionError) and "-v" in sys.argv:
                traceback.print_exc()
            continue
        told.update(outcome.checked)
        told.update(f"{name}: refused" for name in outcome.refused)
    print(f"{end - first} queries, {failed} failed: {dict(told)}")
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    sys.exit(main(*numbers))

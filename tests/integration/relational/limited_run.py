"""Runs one query in a process that may allocate so much, and prints what comes of it.

    python tests/integration/relational/limited_run.py BYTES QUERY

That is the number of rows, or an error of pkray's, as JSON.
"""

import json
import resource
import sys

from pkray.errors import PkrayError
from pkray.relational import query


def main(most: int, text: str) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        print(json.dumps({"rows": query(text).to_arrow().num_rows}))
    except PkrayError as error:
        print(json.dumps({"error": type(error).__name__, "message": error.message}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

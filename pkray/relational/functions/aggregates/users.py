"""Aggregates that users write in Python."""

import numpy as np
import pyarrow as pa

from pkray.relational.functions.aggregates.accumulator import Arrays
from pkray.relational.functions.aggregates.aggregate import compute
from pkray.relational.functions.aggregates.rows import Chosen, nothing, winner
from pkray.relational.plan.expressions import AggregateCall


def _user_values(call: AggregateCall, groups: np.ndarray, count: int, columns: Arrays) -> pa.Array:
    """Call a user's aggregate; groups without rows give NULL."""
    if not columns:
        return nothing(call, count)
    present, local = np.unique(groups, return_inverse=True)
    values = call.udf.aggregate(local, len(present), columns[: len(call.arguments)])
    return winner(call, present, count, [values])


compute("udf", accumulate=Chosen.of_all(_user_values))

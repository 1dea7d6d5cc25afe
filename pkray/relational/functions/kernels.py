"""Kernels made of functions of arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.relational.functions.function import Value
from pkray.relational.functions.values import from_numpy, numpy_of
from pkray.relational.plan.expressions import Call


def by_arrow(compute: Callable[..., Value]) -> Any:
    """Make a kernel of a function of Arrow values."""
    return lambda call, values, rows: compute(*values)


def by_numpy(compute: Callable[..., Any], *, null_where: Callable[..., Any] | None = None) -> Any:
    """Make a kernel of a function of numpy arrays; NULL also where `null_where` is true."""

    def kernel(call: Call, values: Sequence[Value], rows: int) -> Value:
        inputs = [numpy_of(value) for value in values]
        with np.errstate(all="ignore"):
            result = compute(*inputs)
            missing = None if null_where is None else null_where(*inputs)
        array = from_numpy(result, values, call.type.arrow, rows)
        if missing is None or not np.any(missing):
            return array
        wrong = np.broadcast_to(missing, rows)
        return pc.if_else(pa.array(wrong), pa.scalar(None, array.type), array)

    return kernel

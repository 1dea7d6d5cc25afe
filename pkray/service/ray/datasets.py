"""Rows as Ray Datasets."""

from typing import Any

import pyarrow as pa

from pkray.errors import MissingExtraError


def dataset_of(rows: pa.RecordBatch) -> Any:
    """Give rows as a Ray Dataset.

    Raises:
        MissingExtraError: Ray Data is not installed.
    """
    try:
        import ray.data
    except ImportError as error:
        raise MissingExtraError(
            f"Ray Datasets need Ray Data, which is not installed ({error}): pip install 'ray[data]'"
        ) from None
    return ray.data.from_arrow(pa.Table.from_batches([rows]))

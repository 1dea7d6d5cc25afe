"""Parquet files: written for speed in what every Paimon reader reads, read in bounded memory."""

from pkray.storage.parquet.metadata import read_metadata
from pkray.storage.parquet.reader import read_batches
from pkray.storage.parquet.writer import ROW_GROUP_ROWS, ParquetWriter

__all__ = ["ROW_GROUP_ROWS", "ParquetWriter", "read_batches", "read_metadata"]

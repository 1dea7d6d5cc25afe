"""Parquet files: written for speed in what every Paimon reader reads, read in bounded memory."""

from pkray.storage.parquet_metadata import read_metadata
from pkray.storage.parquet_reader import read_batches
from pkray.storage.parquet_writer import ROW_GROUP_ROWS, ParquetWriter

__all__ = ["ROW_GROUP_ROWS", "ParquetWriter", "read_batches", "read_metadata"]

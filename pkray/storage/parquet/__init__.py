"""Parquet files: written for speed in what every Paimon reader reads, read in bounded memory.

`ParquetWriter` chooses each column's encoding (``encoding``), and writes key columns once though
files hold them twice (``shared_columns``). `read_batches` reads row groups batch by batch, those
alone that may hold what is wanted (``reader``), without deleted rows.
``footer``, ``metadata`` and ``thrift`` read and change what stands at a file's end.
"""

from pkray.storage.parquet.metadata import read_metadata
from pkray.storage.parquet.reader import read_batches
from pkray.storage.parquet.writer import ROW_GROUP_ROWS, ParquetWriter

__all__ = ["ROW_GROUP_ROWS", "ParquetWriter", "read_batches", "read_metadata"]

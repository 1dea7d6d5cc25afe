"""TPC-H: queries, and tables and answers by DuckDB's generator."""

from pathlib import Path

QUERIES = sorted((Path(__file__).parent / "queries").glob("q*.sql"))

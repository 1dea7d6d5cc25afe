"""TPC-H: tables, queries and answers, by DuckDB's generator."""

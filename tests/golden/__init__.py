"""Recorded continuous queries: what goes in, the query, and the table that comes out."""

"""Lookups by key in the sorted data files of a bucket, through a local block store."""

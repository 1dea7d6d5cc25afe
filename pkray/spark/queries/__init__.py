"""Spark's SQL over a catalog's tables.

``texts`` finds the names in a text by Spark's own parser. ``needs`` finds which columns and rows it
looks at by Spark's optimizer, over stand-ins without rows. ``catalog_sql`` reads those, at the
newest snapshots, and puts them in the place of the names.
"""

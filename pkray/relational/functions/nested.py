"""Functions of arrays, maps and rows."""

"""Functions of JSON text."""

"""Functions that choose among values."""

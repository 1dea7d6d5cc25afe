"""owner."""

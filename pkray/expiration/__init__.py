"""expiration."""

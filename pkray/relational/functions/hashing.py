"""Functions that hash values."""

"""Reading a snapshot: which files, and what of them."""

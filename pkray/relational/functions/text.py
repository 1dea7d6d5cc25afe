"""Functions of text and bytes."""

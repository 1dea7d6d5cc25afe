"""Compactions beside the writers of an owner, and those of a dedicated job."""

"""Snapshots: what makes a set of files visible, once and whole."""

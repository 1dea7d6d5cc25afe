"""Queries as text: parsed, bound to plans, and written back."""

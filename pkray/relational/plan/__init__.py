"""Logical plans: typed expressions and the nodes that hold them."""

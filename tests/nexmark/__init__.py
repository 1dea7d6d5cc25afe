"""Nexmark: an auction site's people, auctions and bids, and queries of them.

``generator`` makes the events, ``queries`` has the queries in SQL. Both follow the benchmark's
published definition.
"""

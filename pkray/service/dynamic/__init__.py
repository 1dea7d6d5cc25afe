"""Where rows go that no hash alone places: dynamic buckets, keys that cross partitions."""

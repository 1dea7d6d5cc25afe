"""Say where rows go that no hash alone places: dynamic buckets, and keys that cross partitions.

This is the owners' half; the clients that ask are in ``client``. A `BucketAssigner` gives new keys
of its share of the hashes a bucket with room (`BucketFilling`), and finds those of committed keys
in the HASH index files (`CommittedKeys`). Where keys cross partitions one owner's `KeyAssigner`
places the rows of the whole table: the `GlobalKeyIndex` has each key's location, ``placement`` is
the rule as a pure function, and `StagedPushes` holds rows of tasks until it is known which attempts
count. What sessions were told and have not committed is theirs alone (`Assignments`,
`SessionLocations`). `DynamicBuckets` is all of it to an owner; it does nothing for fixed buckets.
"""

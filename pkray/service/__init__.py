"""The running service: owners of buckets, the coordinator, and what pushes rows to them."""

"""What `deploy/` has, checked without a cloud, a cluster or Docker."""

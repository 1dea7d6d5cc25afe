"""What changed between snapshots."""

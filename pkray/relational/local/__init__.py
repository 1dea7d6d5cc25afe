"""The local engine: plans over batches of Arrow, without Java."""

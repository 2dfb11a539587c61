"""Many architectures, many workers, one durable store."""

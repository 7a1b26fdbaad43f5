"""Which checkpoints there are, which were read back and found good, and what they belong to."""

"""What a trainer and its supervisor agree on: reports, orders, checkpoints, durable writes."""

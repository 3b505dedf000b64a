"""Managing explicit LAC of the owner brokers: agree (requests), observe, plan, act; one step at a time."""

"""Managing explicit LAC of the writable brokers: agree (requests), observe, plan, act; one step at a time."""

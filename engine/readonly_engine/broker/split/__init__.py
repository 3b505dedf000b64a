"""Split subscriptions: one Shared subscription that several brokers of a pool serve."""

"""Subscriptions and their topics: cursors, acks, transactions, delivery."""

"""Subscriptions that the owner must serve."""

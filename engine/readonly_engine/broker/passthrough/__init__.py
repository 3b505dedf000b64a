"""Passthrough: subscriptions that the owner must serve, and the flow control of their consumers."""

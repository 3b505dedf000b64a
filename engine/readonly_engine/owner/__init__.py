"""Connections to the brokers of the source cluster: lookups, requests, credentials, and recovery after a change of owner."""

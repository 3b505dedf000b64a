"""Connections to the brokers of the writable cluster: forwarded requests, their ids, and recovery after a move of the owner."""

"""Sockets of clients: listeners, TLS, direct and coalesced writes, keep-alive."""

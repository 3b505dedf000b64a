"""Offloaded ledgers: object stores and file systems, read by ranges."""

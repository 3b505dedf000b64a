"""Dispatchers and cursors: pure state machines, one dispatcher for each subscription type."""

"""Observations of a source cluster and of this machine, by the engine's own clients."""

"""Reconciling: observe, desire, apply, say. Idempotent and level-triggered: what happened does not matter, only what is."""

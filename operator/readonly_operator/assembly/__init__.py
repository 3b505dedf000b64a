"""Reconciling: observe, apply, report. Idempotent and level-triggered: only the current state counts, never the event."""

"""Measurements beside stock software."""

"""Benches that compare this project with stock software."""

"""Generators of reference pages and pictures for docs/: `python -m docsite` writes all of them."""

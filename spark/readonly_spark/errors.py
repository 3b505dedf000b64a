"""Errors that end a query.

SourceError          a topic cannot be read; the message names the topic and the reason
└── DataLossError    messages of the query no longer exist
"""

from __future__ import annotations


class SourceError(Exception):
    """A topic cannot be read."""


class DataLossError(SourceError):
    """Messages of the query no longer exist, and `failOnDataLoss` is true."""

"""Errors that end a query.

SourceError          what is asked for cannot be read: names the topic, and why
└── DataLossError    messages that were to be read are not there any more
"""

from __future__ import annotations


class SourceError(Exception):
    """What is asked for cannot be read."""


class DataLossError(SourceError):
    """Messages that were to be read are not there any more, and `failOnDataLoss` is true."""

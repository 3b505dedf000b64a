"""Errors that end a query.

SourceError              a topic cannot be read; the message names the topic and the reason
├── DataLossError        messages of the query no longer exist
└── DeletedLedgerError   a ledger was deleted during planning
"""

from __future__ import annotations


class SourceError(Exception):
    """A topic cannot be read."""


class DataLossError(SourceError):
    """Messages of the query no longer exist, and `failOnDataLoss` is true."""


class DeletedLedgerError(SourceError):
    """A ledger was deleted between the lookup of its topic and the plan. A newer lookup may do without it."""

"""Errors of the metadata store.

MetadataError
├── MetadataUnavailableError   the store cannot be reached; try again
│   └── AccessDeniedError      the store refuses: a certificate, a login, or a right on a node
├── NotAdmittedError           another process holds the node to register
└── TopicNameError             an invalid name of a topic
"""

from __future__ import annotations


class MetadataError(Exception):
    """Base of all errors of this package."""


class MetadataUnavailableError(MetadataError):
    """The store cannot be reached now; values read before stay valid."""


class AccessDeniedError(MetadataUnavailableError):
    """The store refuses this process; the text names the option, or the right and the node. Values read before stay valid."""


class NotAdmittedError(MetadataError):
    """Another process holds the node to register; the text names it and the remedy."""


class TopicNameError(MetadataError):
    """An invalid name of a topic."""

"""Errors of the metadata store.

MetadataError
├── MetadataUnavailableError   the store cannot be reached; try again
├── NotAdmittedError           what is to be registered may not be now
└── TopicNameError             a name that is no topic's
"""

from __future__ import annotations


class MetadataError(Exception):
    """Base of all that this package can raise."""


class MetadataUnavailableError(MetadataError):
    """The store cannot be reached now; what was read before stays valid."""


class NotAdmittedError(MetadataError):
    """Somebody else has what is to be registered; says who, and what would help."""


class TopicNameError(MetadataError):
    """A text that is not the name of a topic."""

"""Errors of the codecs.

WireError
├── FrameTooLargeError     a peer announced a frame above the limit
├── MalformedFrameError    bytes that violate the protocol
├── UnsupportedFormatError bytes in a format or version that this reader does not support
└── DigestMismatchError    an entry whose digest does not match its bytes
"""

from __future__ import annotations


class WireError(Exception):
    """Base of the codecs' errors."""


class FrameTooLargeError(WireError):
    """The peer announced a frame above the limit; the connection must be closed."""


class MalformedFrameError(WireError):
    """The peer sent bytes that violate the protocol; the connection must be closed."""


class UnsupportedFormatError(WireError):
    """The bytes are in a format or version that this reader does not support."""


class DigestMismatchError(WireError):
    """An entry was damaged in transit or on disk, or is not the requested one; another replica may have it."""

"""Errors of the codecs.

WireError
├── FrameTooLargeError     a peer announced a frame above the limit
├── MalformedFrameError    bytes that are not what the protocol says
├── UnsupportedFormatError bytes of a known format that this reader does not speak
└── DigestMismatchError    an entry whose digest does not match its bytes
"""

from __future__ import annotations


class WireError(Exception):
    """Base of all that a codec can raise."""


class FrameTooLargeError(WireError):
    """The peer announced a frame above the limit; the connection cannot go on."""


class MalformedFrameError(WireError):
    """The peer sent bytes that the protocol does not allow; the connection cannot go on."""


class UnsupportedFormatError(WireError):
    """The bytes are of a format or version that this reader does not speak."""


class DigestMismatchError(WireError):
    """An entry was damaged on its way or on disk, or is not the one that was asked for; another replica may have it."""

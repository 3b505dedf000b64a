"""Errors of the plugin, whose texts are for its user."""

from __future__ import annotations

from http import HTTPStatus


class PluginError(Exception):
    """The command cannot be done; the text has the reason and the remedy."""


class AnswerError(Exception):
    """The API server refused a request, or did not answer it.

    Args:
        text: its message, or the reason that there is none.
        status: the HTTP status; 0 without an answer.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status

    @property
    def forbidden(self) -> bool:
        """Return whether the user lacks a right."""
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def not_found(self) -> bool:
        """Return whether the object, or its kind, does not exist."""
        return self.status == HTTPStatus.NOT_FOUND

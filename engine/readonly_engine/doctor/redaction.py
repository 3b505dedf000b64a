"""Removal of secrets and of control characters from texts of the report, some of which come from servers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.doctor.checks.finding import Finding

HIDDEN: Final = "***"
MAX_TEXT: Final = 600
"""Characters of a text; the rest is left out. A server may answer with a page."""

MAX_RAW_TEXT: Final = 20_000
"""Characters of a text that are read at all."""

MIN_SECRET: Final = 6
"""Characters of a secret from which on it is replaced: gaps in other words would reveal a shorter one."""

_USER_IN_URL: Final = re.compile(r"(://|,)[^/@\s,]+@")
"""A user of the first host of a URL, or of a later one."""


class Redactor:
    """Makes texts safe to print.

    Args:
        secrets: tokens and passwords, which no text may contain.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({one for one in secrets if len(one) >= MIN_SECRET}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text in one line, without secrets, without users in URLs, and without control characters."""
        if len(text) > MAX_RAW_TEXT:  # the cut may leave the beginning of a secret, which no longer matches
            longest = len(self._secrets[0]) if self._secrets else 0
            text = text[:MAX_RAW_TEXT]
            for secret in self._secrets:
                text = text.replace(secret, HIDDEN)
            text = f"{text[: max(0, len(text) - longest)]}..."
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = _USER_IN_URL.sub(rf"\1{HIDDEN}@", " ".join(text.split()))
        text = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."

    def finding(self, finding: Finding) -> Finding:
        """Return a finding with safe texts."""
        return replace(
            finding,
            observed=self.text(finding.observed),
            remedy=self.text(finding.remedy),
            subject=self.text(finding.subject),
        )

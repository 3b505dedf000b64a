"""The last answers of the brokers that `top` shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.status.document import DocumentError, decode, encode
from readonly_engine.status.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.status.state import Status

OK: Final = 200


@dataclass(frozen=True, slots=True)
class Observed:
    """A broker, and its last answer.

    Attributes:
        url: URL of its HTTP port, without a user.
        status: its last state; None before the first.
        error: reason without a newer state; empty if the state is new.
        age_s: seconds since that state; 0 if it is new.
    """

    url: str
    status: Status | None = None
    error: str = ""
    age_s: float = 0.0

    def after(self, newer: Observed, passed_s: float) -> Observed:
        """Return what is known after another request: the newer state, or this one with the reason.

        Args:
            newer: result of the request.
            passed_s: seconds since the request before.
        """
        if newer.status is not None or self.status is None:
            return newer
        return replace(newer, status=self.status, age_s=self.age_s + passed_s)

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "url": self.url,
            "error": self.error,
            "ageSeconds": round(self.age_s, 1),
            "status": None if self.status is None else encode(self.status),
        }


def answered(url: str, code: int, document: Any) -> Observed:
    """Return the result of a request: the state, or the reason that the answer has none.

    Args:
        url: URL or name of the broker, without a user.
        code: the HTTP status.
        document: the answer, JSON.
    """
    if code != OK:
        reason = document.get("reason") if isinstance(document, dict) else None
        return Observed(url, error=printable(str(reason or f"HTTP status {code}")))
    try:
        return Observed(url, decode(document))
    except DocumentError as error:
        return Observed(url, error=str(error))


def merged(before: Iterable[Observed], newer: Iterable[Observed], passed_s: float) -> list[Observed]:
    """Return what is known of all brokers after another request to each. A broker may be new, such as a worker.

    Args:
        before: what was known.
        newer: results of the requests.
        passed_s: seconds since the requests before.
    """
    known = {one.url: one for one in before}
    return [known[one.url].after(one, passed_s) if one.url in known else one for one in newer]

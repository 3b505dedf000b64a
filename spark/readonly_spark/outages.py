"""Planning that is tried again while the metadata store or bookies do not answer. Pure: time is an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import AccessDeniedError, MetadataUnavailableError
from readonly_engine.owner.errors import AdminRefusedError, OwnerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

PAUSES_S: Final = (0.5, 10.0)
"""First and longest pause before another try, in seconds."""

LOG_EVERY_S: Final = 60.0
"""Interval of the log lines of one outage, in seconds."""


def is_transient(error: BaseException) -> bool:
    """Return whether another try may succeed: a server does not answer. A refusal of this client stays one."""
    if isinstance(error, BookKeeperError):
        return not error.refused
    if isinstance(error, OwnerUnavailableError):
        return not isinstance(error, AdminRefusedError)
    return isinstance(error, MetadataUnavailableError) and not isinstance(error, AccessDeniedError)


class RetryWindow:
    """Since when topics cannot be planned, or a whole step of planning.

    Args:
        give_up_after_s: longest duration of an outage, in seconds.
    """

    def __init__(self, give_up_after_s: float) -> None:
        self._give_up_after_s = give_up_after_s
        self._since: dict[str, float] = {}
        self._logged_at: dict[str, float] = {}

    def failed(self, name: str, now: float) -> float | None:
        """Note a failure; return the pause before another try, in seconds, or None after the longest duration."""
        since = self._since.setdefault(name, now)
        left = since + self._give_up_after_s - now
        if left <= 0:
            return None
        # The pauses double, as the time since the first failure does.
        return min(max(PAUSES_S[0], now - since), PAUSES_S[1], left)

    def to_log(self, name: str, now: float) -> bool:
        """Return whether to log a failure: the first one, and then one in LOG_EVERY_S."""
        logged_at = self._logged_at.get(name)
        if logged_at is not None and now - logged_at < LOG_EVERY_S:
            return False
        self._logged_at[name] = now
        return True

    def ended(self, names: Iterable[str]) -> None:
        """Note that names were planned."""
        for name in names:
            self._since.pop(name, None)
            self._logged_at.pop(name, None)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all other names: those of topics that are not read any more."""
        kept = set(names)
        self.ended([name for name in self._since if name not in kept])

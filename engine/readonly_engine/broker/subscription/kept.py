"""A part of the subscriptions, found anew when they change: polls come more often than changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.broker.subscription.subscription import Subscription


class Kept:
    """The subscriptions with a quality that does not change.

    Args:
        subscriptions: returns the subscriptions; another list after each change.
        wanted: whether one has the quality.
    """

    def __init__(
        self, subscriptions: Callable[[], Sequence[Subscription]], wanted: Callable[[Subscription], bool]
    ) -> None:
        self._subscriptions = subscriptions
        self._wanted = wanted
        self._listed: Sequence[Subscription] | None = None
        self._kept: list[Subscription] = []

    def __call__(self) -> list[Subscription]:
        """Return them."""
        if (subscriptions := self._subscriptions()) is not self._listed:
            self._listed, self._kept = subscriptions, [one for one in subscriptions if self._wanted(one)]
        return self._kept

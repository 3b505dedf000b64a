"""Policies that a fault sets for a while, on a namespace or on one topic, while clients are connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devstack.pulsar.admin import AdminError
from longtests.chaos.workload import TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.pulsar.admin import PulsarAdmin


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A policy and a value that slows clients down, and loses nothing.

    Attributes:
        namespace: last part of its path at a namespace.
        topic: the same at a topic.
        value: the value.
        query: further parameters of the request.
    """

    namespace: str
    topic: str
    value: Any
    query: str = ""


_RATE: Final = {"dispatchThrottlingRateInMsg": 8, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
SETTINGS: Final = (
    Setting("maxUnackedMessagesPerConsumer", "maxUnackedMessagesOnConsumer", 20),
    Setting("maxUnackedMessagesPerSubscription", "maxUnackedMessagesOnSubscription", 30),
    Setting("dispatchRate", "dispatchRate", _RATE),
    Setting("subscriptionDispatchRate", "subscriptionDispatchRate", _RATE),
    Setting(
        "backlogQuota",
        "backlogQuota",
        {"limitSize": 100_000, "limitTime": -1, "policy": "producer_request_hold"},
        "?backlogQuotaType=destination_storage",
    ),
)


class Policies:
    """The policies of a run.

    Args:
        admin: returns a client of the admin API of a healthy owner.
    """

    def __init__(self, admin: Callable[[], PulsarAdmin]) -> None:
        self._admin = admin
        self._set: set[tuple[Setting, str]] = set()

    def set(self, number: int) -> None:
        """Set the policy that a number selects, on the topic or the namespace that it selects.

        Raises:
            AdminError: the owner refused it, or may have set it.
        """
        setting, place = _select(number)
        self._set.add((setting, place))
        if "://" in place:
            self._admin().set_topic_policy(place, setting.topic + setting.query, setting.value)
        else:
            self._admin().set_namespace_policy(place, setting.namespace + setting.query, setting.value)

    def remove(self, number: int) -> None:
        """Remove the policy that a number selects.

        Raises:
            AdminError: it may not have been removed.
        """
        self._remove(*_select(number))

    def remove_all(self) -> None:
        """Remove all policies that may still be set; AdminError after the first that can not be removed."""
        for setting, place in list(self._set):
            self._remove(setting, place)

    def _remove(self, setting: Setting, place: str) -> None:
        if (setting, place) not in self._set:
            return
        try:
            if "://" in place:
                self._admin().remove_topic_policy(place, setting.topic + setting.query)
            else:
                self._admin().remove_namespace_policy(place, setting.namespace + setting.query)
        except AdminError as error:
            # A topic that was deleted has lost its policies.
            if error.status != 404:
                raise
        self._set.discard((setting, place))


def _select(number: int) -> tuple[Setting, str]:
    number, setting = divmod(number, len(SETTINGS))
    topic = TOPICS[number // 2 % len(TOPICS)]
    return SETTINGS[setting], topic.full if number % 2 else topic.namespace

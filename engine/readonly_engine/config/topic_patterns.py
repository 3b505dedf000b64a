"""Texts that bind topics: a full name or a regular expression of full names. Brokers and operator share these rules."""

from __future__ import annotations

import re
from typing import Final

NAMESPACE: Final = r"[A-Za-z0-9_=:%.-]+/[A-Za-z0-9_=:%.-]+"
"""Expression of TENANT/NAMESPACE as Pulsar allows them (NamedEntity), with the percent sign of encoded names."""

_NAMESPACE: Final = re.compile(NAMESPACE)
_LITERAL_START: Final = re.compile(rf"persistent://({NAMESPACE})/")
_NAME: Final = re.compile(r"[-\w.=:%~@+/]+")
_PARTITION: Final = re.compile(r"-partition-(0|[1-9][0-9]{0,8})$")
_SYSTEM_TOPIC: Final = re.compile(r"[^/]+://[^/]+/[^/]+/(__.*|.*__transaction_pending_ack)", re.DOTALL)


def is_name(text: str) -> bool:
    """Return whether a text is a topic's name; else it is a regular expression. A dot alone makes no expression, `.+` does."""
    return _NAME.fullmatch(text) is not None and ".+" not in text


def is_namespace(text: str) -> bool:
    """Return whether a text is TENANT/NAMESPACE."""
    return _NAMESPACE.fullmatch(text) is not None


def literal_namespace(text: str) -> str | None:
    """Return TENANT/NAMESPACE at the start of a name or expression; None where the text leaves it open."""
    found = _LITERAL_START.match(text)
    return None if found is None else found[1]


def base_of(name: str) -> str:
    """Return the full name of a partition's topic, or the name itself."""
    return _PARTITION.sub("", name)


def is_system_topic(name: str) -> bool:
    """Return whether a topic of this full name is Pulsar's own, in a namespace of users (SystemTopicNames)."""
    return _SYSTEM_TOPIC.fullmatch(base_of(name)) is not None

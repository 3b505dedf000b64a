"""ReadOnlyTopicBinding as a typed value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_operator.api import reader
from readonly_operator.names import PoolKey

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC_NAME = re.compile(r"persistent://[A-Za-z0-9_=:%.-]+/[A-Za-z0-9_=:%.-]+/[^/\s]+")
"""Tenant and namespace as Pulsar allows them (NamedEntity), then a topic's name or a regular expression of names."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding as its spec asks for it.

    Attributes:
        namespace: of the object, and of its pool.
        name: of the object.
        generation: of the spec.
        pool: the pool that is to serve the topics.
        topics: full names or regular expressions of full names, sorted, each once.
    """

    namespace: str
    name: str
    generation: int
    pool: PoolKey
    topics: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """The binding's name for the brokers."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def load(cls, body: Mapping[str, Any]) -> Binding:
        """The binding of a Kubernetes object.

        Raises:
            ApiSpecError: a field cannot be used; the text names it.
        """
        metadata = body["metadata"]
        spec = reader.mapping(body, "", "spec")
        topics = spec.get("topics")
        if not isinstance(topics, list) or not topics:
            raise reader.ApiSpecError("spec.topics must name at least one topic")
        for index, topic in enumerate(topics):
            _check(f"spec.topics[{index}]", topic)
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            generation=metadata.get("generation", 0),
            pool=PoolKey(
                metadata["namespace"], reader.text(reader.mapping(spec, "spec", "poolRef"), "spec.poolRef", "name")
            ),
            topics=tuple(sorted(set(topics))),
        )


def _check(path: str, topic: object) -> None:
    if not isinstance(topic, str) or not TOPIC_NAME.fullmatch(topic):
        raise reader.ApiSpecError(
            f"{path} must be persistent://TENANT/NAMESPACE/TOPIC or a regular expression of such names, not {topic!r}"
        )
    try:
        re.compile(topic)
    except re.error as error:
        raise reader.ApiSpecError(f"{path} is no regular expression: {error} in {topic!r}") from None

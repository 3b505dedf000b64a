"""A small client of the brokers' admin API: what tests, demo and benchmarks ask of it."""

from __future__ import annotations

import http.client
import itertools
import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

JSON = Any
"""A response of the admin API, in Pulsar's format."""

_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)


class AdminError(Exception):
    """The admin API refused or could not be reached.

    Attributes:
        status: the HTTP status; 0 when there was no answer.
        reason: Pulsar's own words where it gave some.
    """

    def __init__(self, status: int, reason: str, what: str) -> None:
        super().__init__(f"{what}: {status} {reason}" if status else f"{what}: {reason}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """A position in a topic."""

    ledger: int
    entry: int


@dataclass(frozen=True, slots=True)
class PulsarAdmin:
    """The admin API below one URL; redirects to a topic's owner are followed.

    Topics are given in full (`persistent://TENANT/NAMESPACE/NAME`) or short (`NAME` is in public/default).

    Attributes:
        url: any broker's `http://HOST:PORT`.
        timeout: seconds for one request.
        token: who asks, where the brokers want to know.
    """

    url: str
    timeout: float = 30.0
    token: str = field(default="", repr=False)

    # -- topics ------------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str) -> None:
        """Create a topic without partitions; one that exists is an AdminError 409."""
        self._request("PUT", topic_path(topic))

    def create_partitioned_topic(self, topic: str, partitions: int) -> None:
        """Create a topic of so many partitions; one that exists is an AdminError 409."""
        self._request("PUT", f"{topic_path(topic)}/partitions", body=partitions)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 for a topic without partitions."""
        return int(self._request("GET", f"{topic_path(topic)}/partitions")["partitions"])

    def update_partitions(self, topic: str, partitions: int) -> None:
        """Give a partitioned topic more partitions."""
        self._request("POST", f"{topic_path(topic)}/partitions", body=partitions)

    def delete_topic(self, topic: str, *, force: bool = True) -> None:
        """Delete a topic without partitions and its subscriptions; `force` closes who is connected."""
        self._request("DELETE", topic_path(topic), query={"force": str(force).lower()})

    def delete_partitioned_topic(self, topic: str, *, force: bool = True) -> None:
        """Delete a partitioned topic; `force` closes who is connected."""
        self._request("DELETE", f"{topic_path(topic)}/partitions", query={"force": str(force).lower()})

    def topics(self, namespace: str = "public/default") -> list[str]:
        """The names of a namespace's persistent topics; partitions are listed one by one."""
        return list(self._request("GET", f"/admin/v2/persistent/{namespace}"))

    def lookup(self, topic: str) -> str:
        """The owner's URL of the binary protocol; a topic without an owner gets one."""
        return str(self._request("GET", f"/lookup/v2/topic{topic_path(topic).removeprefix('/admin/v2')}")["brokerUrl"])

    def unload(self, topic: str) -> None:
        """Unload a topic: its ledger is closed, and the next lookup loads it again."""
        self._request("PUT", f"{topic_path(topic)}/unload")

    def unload_namespace(self, namespace: str = "public/default") -> None:
        """Close all topics of a namespace; its bundles may go to other brokers."""
        self._request("PUT", f"/admin/v2/namespaces/{namespace}/unload")

    def trim(self, topic: str) -> None:
        """Delete the ledgers that no subscription and no retention holds any more."""
        self._request("POST", f"{topic_path(topic)}/trim")

    def offload(self, topic: str, before: MessageId) -> None:
        """Begin to offload the ledgers that end before a message."""
        body = {"ledgerId": before.ledger, "entryId": before.entry, "partitionIndex": -1}
        self._request("PUT", f"{topic_path(topic)}/offload", body=body)

    def offload_status(self, topic: str) -> JSON:
        """Return the status of the task: `status` is RUNNING, SUCCESS, or ERROR with `lastError`."""
        return self._request("GET", f"{topic_path(topic)}/offload")

    def truncate(self, topic: str) -> None:
        """Move all subscriptions to the end, roll the ledger and delete what retention does not hold."""
        self._request("DELETE", f"{topic_path(topic)}/truncate")

    def delete_schema(self, topic: str) -> None:
        """Delete a topic's schema: a new version says that there is none."""
        tenant, namespace, name = full_name(topic).partition("://")[2].split("/", 2)
        self._request("DELETE", f"/admin/v2/schemas/{tenant}/{namespace}/{quote(name, safe='')}/schema")

    def compact(self, topic: str) -> None:
        """Start the topic's compaction; one that runs already is an AdminError 409."""
        self._request("PUT", f"{topic_path(topic)}/compaction")

    def terminate(self, topic: str) -> MessageId:
        """Seal a topic: nothing can be written to it any more. Gives its last message."""
        return _message_id(self._request("POST", f"{topic_path(topic)}/terminate"))

    def stats(self, topic: str) -> JSON:
        """A topic's stats: `subscriptions` by name, with `msgBacklog` (counted precisely), `msgOutCounter`, `consumers`."""
        return self._request(
            "GET", f"{topic_path(topic)}/stats", query={"getPreciseBacklog": "true", "subscriptionBacklogSize": "true"}
        )

    def partitioned_stats(self, topic: str) -> JSON:
        """The same over all partitions, each also alone in `partitions`."""
        return self._request(
            "GET", f"{topic_path(topic)}/partitioned-stats", query={"perPartition": "true", "getPreciseBacklog": "true"}
        )

    def internal_stats(self, topic: str) -> JSON:
        """Ledgers (`ledgers`), `lastConfirmedEntry`, and `cursors` by name with `markDeletePosition`."""
        return self._request("GET", f"{topic_path(topic)}/internalStats")

    def transaction_buffer_stats(self, topic: str) -> JSON:
        """A topic's transaction buffer: `ongoingTxnSize`, `maxReadPosition`."""
        tenant, namespace, name = topic.removeprefix("persistent://").split("/", 2)
        path = f"/admin/v3/transactions/transactionBufferStats/{tenant}/{namespace}/{quote(name, safe='')}"
        return self._request("GET", path)

    def last_message_id(self, topic: str) -> MessageId:
        """The last message's position; entry -1 when there is none."""
        return _message_id(self._request("GET", f"{topic_path(topic)}/lastMessageId"))

    # -- subscriptions -----------------------------------------------------------------------------------------------------

    def subscriptions(self, topic: str) -> list[str]:
        """The names of a topic's durable and connected subscriptions."""
        return list(self._request("GET", f"{topic_path(topic)}/subscriptions"))

    def create_subscription(self, topic: str, subscription: str, *, earliest: bool = True) -> None:
        """Create a durable subscription at the topic's first or behind its last message."""
        edge = -1 if earliest else (1 << 63) - 1
        self._request(
            "PUT",
            f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}",
            body={"ledgerId": edge, "entryId": edge, "partitionIndex": -1},
        )

    def delete_subscription(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription; `force` closes its consumers."""
        self._request(
            "DELETE",
            f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}",
            query={"force": str(force).lower()},
        )

    def set_max_unacked_on_consumer(self, topic: str, messages: int) -> None:
        """Limit how many messages of a topic a Shared consumer may leave unacked."""
        self._request("POST", topic_path(topic) + "/maxUnackedMessagesOnConsumer", body=messages)

    def skip_all(self, topic: str, subscription: str) -> None:
        """Acknowledge everything for a subscription."""
        self._request("POST", f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}/skip_all")

    def reset_cursor(self, topic: str, subscription: str, position: MessageId) -> None:
        """Move a subscription to a message, which is the next one that it gets."""
        self._request(
            "POST",
            f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}/resetcursor",
            body={"ledgerId": position.ledger, "entryId": position.entry, "partitionIndex": -1},
        )

    # -- tenants and namespaces --------------------------------------------------------------------------------------------

    def create_namespace(self, namespace: str, *, bundles: int = 4) -> None:
        """Create TENANT/NAMESPACE; the tenant must be there."""
        self._request("PUT", f"/admin/v2/namespaces/{namespace}", body={"bundles": {"numBundles": bundles}})

    def bundles(self, namespace: str) -> list[str]:
        """The bundles of a namespace, as `0x00000000_0x40000000`."""
        bounds = self._request("GET", f"/admin/v2/namespaces/{namespace}/bundles")["boundaries"]
        return [f"{low}_{high}" for low, high in itertools.pairwise(bounds)]

    def split_bundle(self, namespace: str, bundle: str) -> None:
        """Split a bundle into two halves, and unload both."""
        self._request("PUT", f"/admin/v2/namespaces/{namespace}/{bundle}/split", query={"unload": "true"})

    def offload_policies(self, namespace: str) -> JSON:
        """Set the offload policies of a namespace, by the keys of broker.conf."""
        return self._request("GET", f"/admin/v2/namespaces/{namespace}/offloadPolicies")

    def set_offload_policies(self, namespace: str, policies: JSON) -> None:
        """Say where and how a namespace offloads; what is left out is as broker.conf says."""
        self._request("POST", f"/admin/v2/namespaces/{namespace}/offloadPolicies", body=policies)

    def delete_namespace(self, namespace: str) -> None:
        """Delete an empty namespace."""
        self._request("DELETE", f"/admin/v2/namespaces/{namespace}")

    def set_retention(self, namespace: str, *, minutes: int, megabytes: int) -> None:
        """Keep acknowledged messages so long and up to so much; -1 is without limit."""
        body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        self._request("POST", f"/admin/v2/namespaces/{namespace}/retention", body=body)

    def set_deduplication(self, namespace: str, *, enabled: bool) -> None:
        """Whether brokers drop messages of a namespace that a producer sent twice."""
        self._request("POST", f"/admin/v2/namespaces/{namespace}/deduplication", body=enabled)

    def set_publish_rate(self, namespace: str, *, messages: int) -> None:
        """Limit what producers publish to each topic of a namespace, in messages a second."""
        body = {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": -1}
        self._request("POST", f"/admin/v2/namespaces/{namespace}/publishRate", body=body)

    def forbid_topic_creation(self, namespace: str) -> None:
        """Let no topic of a namespace come into being by being used."""
        self._request(
            "POST", f"/admin/v2/namespaces/{namespace}/autoTopicCreation", body={"allowAutoTopicCreation": False}
        )

    def set_persistence(
        self, namespace: str, *, ensemble: int, write_quorum: int, ack_quorum: int, mark_delete_rate: float = 0.0
    ) -> None:
        """Choose the quorums of ledgers opened from now on, and how often cursors are written (per second, 0: no limit)."""
        body = {
            "bookkeeperEnsemble": ensemble,
            "bookkeeperWriteQuorum": write_quorum,
            "bookkeeperAckQuorum": ack_quorum,
            "managedLedgerMaxMarkDeleteRate": mark_delete_rate,
        }
        self._request("POST", f"/admin/v2/namespaces/{namespace}/persistence", body=body)

    def grant(self, namespace: str, role: str, *actions: str) -> None:
        """Let a role `produce` or `consume` in a namespace."""
        self._request("POST", f"/admin/v2/namespaces/{namespace}/permissions/{quote(role)}", body=list(actions))

    def grant_on_topic(self, topic: str, role: str, *actions: str) -> None:
        """Let a role `produce` or `consume` on one topic."""
        self._request("POST", f"{topic_path(topic)}/permissions/{quote(role)}", body=list(actions))

    def revoke_on_topic(self, topic: str, role: str) -> None:
        """Take back what a role was granted on one topic."""
        self._request("DELETE", f"{topic_path(topic)}/permissions/{quote(role)}")

    def grant_subscription(self, namespace: str, subscription: str, *roles: str) -> None:
        """Let only these roles use a subscription of a namespace."""
        path = f"/admin/v2/namespaces/{namespace}/permissions/subscription/{quote(subscription, safe='')}"
        self._request("POST", path, body=list(roles))

    # -- brokers -----------------------------------------------------------------------------------------------------------

    def brokers(self) -> list[str]:
        """The live brokers, as HOST:PORT of their web service."""
        return list(self._request("GET", "/admin/v2/brokers"))

    def version(self) -> str:
        """The broker's Pulsar version."""
        return str(self._request("GET", "/admin/v2/brokers/version"))

    def runtime_configuration(self) -> dict[str, str]:
        """All keys of this broker's configuration as it runs."""
        return dict(self._request("GET", "/admin/v2/brokers/configuration/runtime"))

    def dynamic_configuration_names(self) -> list[str]:
        """The keys that can be changed while brokers run."""
        return list(self._request("GET", "/admin/v2/brokers/configuration"))

    def set_dynamic_configuration(self, key: str, value: str) -> None:
        """Change a key on all brokers at once."""
        self._request("POST", f"/admin/v2/brokers/configuration/{key}/{quote(value, safe='')}")

    def clear_dynamic_configuration(self, key: str) -> None:
        """Give a key its value from the file again, when brokers start next."""
        self._request("DELETE", f"/admin/v2/brokers/configuration/{key}")

    def health(self) -> None:
        """Let the broker produce and consume a message of its own; an AdminError tells that it cannot."""
        self._request("GET", "/admin/v2/brokers/health", query={"topicVersion": "V2"})

    def ready(self) -> None:
        """Ask whether the broker has started; an AdminError tells that it has not. Cheaper than `health`."""
        self._request("GET", "/admin/v2/brokers/ready")

    # -- transport ---------------------------------------------------------------------------------------------------------

    def _request(self, method: str, path: str, *, body: JSON = None, query: dict[str, str] | None = None) -> JSON:
        """One request; redirects keep method and body, as Pulsar's 307 demands."""
        target = f"{self.url.rstrip('/')}{path}{'?' + urlencode(query) if query else ''}"
        payload = None if body is None else json.dumps(body).encode()
        what = f"{method} {target}"
        headers = {"Content-Type": "application/json", "Accept": "*/*"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        for _ in range(_MAX_REDIRECTS):
            parts = urlsplit(target)
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=self.timeout)
            try:
                connection.request(
                    method,
                    f"{parts.path}?{parts.query}" if parts.query else parts.path,
                    body=payload,
                    headers=headers,
                )
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
            except (OSError, http.client.HTTPException) as error:
                raise AdminError(0, f"no answer ({error})", what) from error
            finally:
                connection.close()
            if answer.status in _REDIRECTS and (location := answer.getheader("Location")):
                target = location
                continue
            if answer.status >= 300:
                raise AdminError(answer.status, _reason(text) or answer.reason, what)
            return _parsed(text)
        raise AdminError(0, f"more than {_MAX_REDIRECTS} redirects", what)


def full_name(topic: str) -> str:
    """A topic's name in full: `NAME` becomes persistent://public/default/NAME."""
    if "://" in topic:
        return topic
    return f"persistent://{topic}" if topic.count("/") == 2 else f"persistent://public/default/{topic}"


def topic_path(topic: str) -> str:
    """A topic's path in the admin API."""
    domain, _, rest = full_name(topic).partition("://")
    tenant, namespace, name = rest.split("/", 2)
    return f"/admin/v2/{domain}/{tenant}/{namespace}/{quote(name, safe='')}"


def _message_id(answer: JSON) -> MessageId:
    return MessageId(int(answer["ledgerId"]), int(answer["entryId"]))


def _reason(text: str) -> str:
    """Pulsar's reason in the body of a refusal."""
    answer = _parsed(text)
    return str(answer["reason"]) if isinstance(answer, dict) and "reason" in answer else ""


def _parsed(text: str) -> JSON:
    try:
        return json.loads(text)
    except ValueError:
        return text

"""A small client of the admin API, for tests, demo and benchmarks."""

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
        status: HTTP status; 0 without an answer.
        reason: reason in Pulsar's answer, or the HTTP reason, or the error of the connection.
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
    """Client of the admin API below one URL. It follows redirects to a topic's owner.

    Topics have full names (`persistent://TENANT/NAMESPACE/NAME`) or short ones (`NAME` in public/default).

    Attributes:
        url: `http://HOST:PORT` of any broker.
        timeout: timeout of one request, in seconds.
        token: bearer token; empty without authentication.
    """

    url: str
    timeout: float = 30.0
    token: str = field(default="", repr=False)

    # -- topics ------------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str) -> None:
        """Create a topic without partitions; an existing one raises AdminError 409."""
        self._request("PUT", topic_path(topic))

    def create_partitioned_topic(self, topic: str, partitions: int) -> None:
        """Create a partitioned topic; an existing one raises AdminError 409."""
        self._request("PUT", f"{topic_path(topic)}/partitions", body=partitions)

    def create_scalable_topic(self, name: str, *, segments: int, namespace: str = "public/default") -> None:
        """Create topic://NAMESPACE/NAME with some segments (Pulsar 5.0 and later)."""
        self._request("PUT", f"/admin/v2/scalable/{namespace}/{name}", query={"numInitialSegments": str(segments)})

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 for a topic without partitions."""
        return int(self._request("GET", f"{topic_path(topic)}/partitions")["partitions"])

    def update_partitions(self, topic: str, partitions: int) -> None:
        """Increase the number of partitions of a topic to `partitions`."""
        self._request("POST", f"{topic_path(topic)}/partitions", body=partitions)

    def delete_topic(self, topic: str, *, force: bool = True) -> None:
        """Delete a topic without partitions and its subscriptions; `force` disconnects its clients."""
        self._request("DELETE", topic_path(topic), query={"force": str(force).lower()})

    def delete_partitioned_topic(self, topic: str, *, force: bool = True) -> None:
        """Delete a partitioned topic; `force` disconnects its clients."""
        self._request("DELETE", f"{topic_path(topic)}/partitions", query={"force": str(force).lower()})

    def topics(self, namespace: str = "public/default", *, system: bool = False) -> list[str]:
        """Return the names of a namespace's persistent topics, with each partition; with `system` also system topics."""
        query = {"includeSystemTopic": "true"} if system else None
        return list(self._request("GET", f"/admin/v2/persistent/{namespace}", query=query))

    def lookup(self, topic: str) -> str:
        """Return the owner's service URL; a topic without an owner gets one."""
        return str(self._request("GET", f"/lookup/v2/topic{topic_path(topic).removeprefix('/admin/v2')}")["brokerUrl"])

    def unload(self, topic: str) -> None:
        """Unload a topic: its owner closes the ledger, and the next lookup loads the topic again."""
        self._request("PUT", f"{topic_path(topic)}/unload")

    def unload_namespace(self, namespace: str = "public/default") -> None:
        """Unload all bundles of a namespace; they may move to other brokers."""
        self._request("PUT", f"/admin/v2/namespaces/{namespace}/unload")

    def trim(self, topic: str) -> None:
        """Delete the ledgers that neither a subscription nor retention needs."""
        self._request("POST", f"{topic_path(topic)}/trim")

    def offload(self, topic: str, before: MessageId) -> None:
        """Start to offload the ledgers that end before a message."""
        body = {"ledgerId": before.ledger, "entryId": before.entry, "partitionIndex": -1}
        self._request("PUT", f"{topic_path(topic)}/offload", body=body)

    def offload_status(self, topic: str) -> JSON:
        """Return the status of the offload: `status` is RUNNING, SUCCESS, or ERROR with `lastError`."""
        return self._request("GET", f"{topic_path(topic)}/offload")

    def truncate(self, topic: str) -> None:
        """Move all subscriptions to the end, roll the ledger, and delete the ledgers that retention does not need."""
        self._request("DELETE", f"{topic_path(topic)}/truncate")

    def delete_schema(self, topic: str) -> None:
        """Delete a topic's schema, by a new version that marks the deletion."""
        tenant, namespace, name = full_name(topic).partition("://")[2].split("/", 2)
        self._request("DELETE", f"/admin/v2/schemas/{tenant}/{namespace}/{quote(name, safe='')}/schema")

    def compact(self, topic: str) -> None:
        """Start the topic's compaction; a running one raises AdminError 409."""
        self._request("PUT", f"{topic_path(topic)}/compaction")

    def terminate(self, topic: str) -> MessageId:
        """Terminate a topic, after which no message can be published; return its last message."""
        return _message_id(self._request("POST", f"{topic_path(topic)}/terminate"))

    def stats(self, topic: str) -> JSON:
        """Return a topic's stats: `subscriptions` by name, with `msgBacklog` (precise), `msgOutCounter`, `consumers`."""
        return self._request(
            "GET", f"{topic_path(topic)}/stats", query={"getPreciseBacklog": "true", "subscriptionBacklogSize": "true"}
        )

    def internal_stats(self, topic: str) -> JSON:
        """Return a topic's internal stats: `ledgers`, `lastConfirmedEntry`, `cursors` by name with `markDeletePosition`."""
        return self._request("GET", f"{topic_path(topic)}/internalStats")

    def transaction_buffer_stats(self, topic: str) -> JSON:
        """Return the stats of a topic's transaction buffer: `ongoingTxnSize`, `maxReadPosition`."""
        tenant, namespace, name = topic.removeprefix("persistent://").split("/", 2)
        path = f"/admin/v3/transactions/transactionBufferStats/{tenant}/{namespace}/{quote(name, safe='')}"
        return self._request("GET", path)

    def last_message_id(self, topic: str) -> MessageId:
        """Return the position of the last message; entry -1 without one."""
        return _message_id(self._request("GET", f"{topic_path(topic)}/lastMessageId"))

    # -- subscriptions -----------------------------------------------------------------------------------------------------

    def subscriptions(self, topic: str) -> list[str]:
        """Return the names of a topic's durable and connected subscriptions."""
        return list(self._request("GET", f"{topic_path(topic)}/subscriptions"))

    def create_subscription(self, topic: str, subscription: str, *, earliest: bool = True) -> None:
        """Create a durable subscription at the first message, or after the last one."""
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

    def set_topic_policy(self, topic: str, name: str, value: JSON) -> None:
        """Set a policy of a topic, by the last part of its path."""
        self._request("POST", f"{topic_path(topic)}/{name}", body=value)

    def set_namespace_policy(self, namespace: str, name: str, value: JSON) -> None:
        """Set a policy of a namespace, by the last part of its path."""
        self._request("POST", f"/admin/v2/namespaces/{namespace}/{name}", body=value)

    def remove_topic_policy(self, topic: str, name: str) -> None:
        """Remove a policy of a topic, by the last part of its path."""
        self._request("DELETE", f"{topic_path(topic)}/{name}")

    def remove_namespace_policy(self, namespace: str, name: str) -> None:
        """Remove a policy of a namespace, by the last part of its path."""
        self._request("DELETE", f"/admin/v2/namespaces/{namespace}/{name}")

    def set_max_unacked_on_consumer(self, topic: str, messages: int) -> None:
        """Limit the unacked messages of each Shared consumer of a topic."""
        self.set_topic_policy(topic, "maxUnackedMessagesOnConsumer", messages)

    def skip_all(self, topic: str, subscription: str) -> None:
        """Ack all messages of a subscription."""
        self._request("POST", f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}/skip_all")

    def expire(self, topic: str, subscription: str, older_than_s: int) -> None:
        """Expire messages of a subscription, as message TTL does (PersistentMessageExpiryMonitor)."""
        path = f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}/expireMessages/{older_than_s}"
        self._request("POST", path)

    def reset_cursor(self, topic: str, subscription: str, position: MessageId) -> None:
        """Move a subscription to a message, which is then the next one to deliver."""
        self._request(
            "POST",
            f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}/resetcursor",
            body={"ledgerId": position.ledger, "entryId": position.entry, "partitionIndex": -1},
        )

    # -- tenants and namespaces --------------------------------------------------------------------------------------------

    def create_namespace(self, namespace: str, *, bundles: int = 4) -> None:
        """Create a namespace TENANT/NAMESPACE; the tenant must exist."""
        self._request("PUT", f"/admin/v2/namespaces/{namespace}", body={"bundles": {"numBundles": bundles}})

    def bundles(self, namespace: str) -> list[str]:
        """Return the bundles of a namespace, as `0x00000000_0x40000000`."""
        bounds = self._request("GET", f"/admin/v2/namespaces/{namespace}/bundles")["boundaries"]
        return [f"{low}_{high}" for low, high in itertools.pairwise(bounds)]

    def split_bundle(self, namespace: str, bundle: str) -> None:
        """Split a bundle into two halves, and unload both."""
        self._request("PUT", f"/admin/v2/namespaces/{namespace}/{bundle}/split", query={"unload": "true"})

    def offload_policies(self, namespace: str) -> JSON:
        """Return the offload policies of a namespace, by the keys of broker.conf."""
        return self._request("GET", f"/admin/v2/namespaces/{namespace}/offloadPolicies")

    def set_offload_policies(self, namespace: str, policies: JSON) -> None:
        """Set the offload policies of a namespace; for missing keys broker.conf applies."""
        self._request("POST", f"/admin/v2/namespaces/{namespace}/offloadPolicies", body=policies)

    def delete_namespace(self, namespace: str) -> None:
        """Delete an empty namespace."""
        self._request("DELETE", f"/admin/v2/namespaces/{namespace}")

    def set_retention(self, namespace: str, *, minutes: int, megabytes: int) -> None:
        """Set time and size of the retention of acked messages; -1 for no limit."""
        body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        self._request("POST", f"/admin/v2/namespaces/{namespace}/retention", body=body)

    def set_deduplication(self, namespace: str, *, enabled: bool) -> None:
        """Turn deduplication of messages on or off for a namespace."""
        self.set_namespace_policy(namespace, "deduplication", enabled)

    def set_publish_rate(self, namespace: str, *, messages: int) -> None:
        """Limit the publish rate of each topic of a namespace, in messages per second."""
        body = {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": -1}
        self._request("POST", f"/admin/v2/namespaces/{namespace}/publishRate", body=body)

    def forbid_topic_creation(self, namespace: str) -> None:
        """Turn off the automatic creation of topics for a namespace."""
        self._request(
            "POST", f"/admin/v2/namespaces/{namespace}/autoTopicCreation", body={"allowAutoTopicCreation": False}
        )

    def set_persistence(
        self, namespace: str, *, ensemble: int, write_quorum: int, ack_quorum: int, mark_delete_rate: float = 0.0
    ) -> None:
        """Set the quorums of new ledgers, and the maximal rate of cursor writes (per second, 0 for no limit)."""
        body = {
            "bookkeeperEnsemble": ensemble,
            "bookkeeperWriteQuorum": write_quorum,
            "bookkeeperAckQuorum": ack_quorum,
            "managedLedgerMaxMarkDeleteRate": mark_delete_rate,
        }
        self._request("POST", f"/admin/v2/namespaces/{namespace}/persistence", body=body)

    def grant(self, namespace: str, role: str, *actions: str) -> None:
        """Grant a role the actions `produce` or `consume` in a namespace."""
        self._request("POST", f"/admin/v2/namespaces/{namespace}/permissions/{quote(role)}", body=list(actions))

    def grant_on_topic(self, topic: str, role: str, *actions: str) -> None:
        """Grant a role the actions `produce` or `consume` on one topic."""
        self._request("POST", f"{topic_path(topic)}/permissions/{quote(role)}", body=list(actions))

    def revoke_on_topic(self, topic: str, role: str) -> None:
        """Revoke the permissions of a role on one topic."""
        self._request("DELETE", f"{topic_path(topic)}/permissions/{quote(role)}")

    def grant_subscription(self, namespace: str, subscription: str, *roles: str) -> None:
        """Restrict a subscription of a namespace to roles."""
        path = f"/admin/v2/namespaces/{namespace}/permissions/subscription/{quote(subscription, safe='')}"
        self._request("POST", path, body=list(roles))

    # -- brokers -----------------------------------------------------------------------------------------------------------

    def brokers(self) -> list[str]:
        """Return the live brokers, as HOST:PORT of their web service."""
        return list(self._request("GET", "/admin/v2/brokers"))

    def version(self) -> str:
        """Return the broker's Pulsar version."""
        return str(self._request("GET", "/admin/v2/brokers/version"))

    def runtime_configuration(self) -> dict[str, str]:
        """Return the runtime configuration of this broker."""
        return dict(self._request("GET", "/admin/v2/brokers/configuration/runtime"))

    def start_migration(self, target: str) -> None:
        """Begin to move the metadata to another store, such as oxia://HOST:PORT/NAMESPACE (Pulsar 4.2 and later)."""
        self._request("POST", "/admin/v2/metadata/migration/start", query={"target": target})

    def health(self) -> None:
        """Make the broker publish and consume a message; AdminError if that fails."""
        self._request("GET", "/admin/v2/brokers/health", query={"topicVersion": "V2"})

    def ready(self) -> None:
        """Check that the broker has started; AdminError if not. Cheaper than `health`."""
        self._request("GET", "/admin/v2/brokers/ready")

    # -- transport ---------------------------------------------------------------------------------------------------------

    def _request(self, method: str, path: str, *, body: JSON = None, query: dict[str, str] | None = None) -> JSON:
        """Send a request. Redirects keep method and body, as Pulsar's status 307 requires."""
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
    """Return the full name of a topic: `NAME` becomes persistent://public/default/NAME."""
    if "://" in topic:
        return topic
    return f"persistent://{topic}" if topic.count("/") == 2 else f"persistent://public/default/{topic}"


def topic_path(topic: str) -> str:
    """Return the path of a topic in the admin API."""
    domain, _, rest = full_name(topic).partition("://")
    tenant, namespace, name = rest.split("/", 2)
    return f"/admin/v2/{domain}/{tenant}/{namespace}/{quote(name, safe='')}"


def _message_id(answer: JSON) -> MessageId:
    return MessageId(int(answer["ledgerId"]), int(answer["entryId"]))


def _reason(text: str) -> str:
    """Return the reason in the body of an error; empty without one."""
    answer = _parsed(text)
    return str(answer["reason"]) if isinstance(answer, dict) and "reason" in answer else ""


def _parsed(text: str) -> JSON:
    try:
        return json.loads(text)
    except ValueError:
        return text

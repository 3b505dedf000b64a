"""The examination: all observations beside each other, each within its deadline, and their findings in a fixed order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.config.settings import Cursors
from readonly_engine.doctor.checks import (
    admin_api,
    bookies,
    brokers,
    clocks,
    explicit_lac,
    machine,
    metadata_store,
    names,
    tiered,
    topics,
    versions,
)
from readonly_engine.doctor.checks.finding import Finding, fail, ok
from readonly_engine.doctor.clients import open_clients
from readonly_engine.doctor.deadline import Deadline
from readonly_engine.doctor.observe import admin_api as ask_admin
from readonly_engine.doctor.observe import bookies as ask_bookie
from readonly_engine.doctor.observe import brokers as ask_broker
from readonly_engine.doctor.observe import explicit_lac as lac
from readonly_engine.doctor.observe import metadata_store as store
from readonly_engine.doctor.observe import names as dns
from readonly_engine.doctor.observe import policies, subjects
from readonly_engine.doctor.observe import tiered as offloaded
from readonly_engine.doctor.observe.machine import observe_machine
from readonly_engine.doctor.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from typing import Any

    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.doctor.checks.admin_api import AdminAnswer
    from readonly_engine.doctor.checks.failure import Failure
    from readonly_engine.doctor.clients import Clients
    from readonly_engine.doctor.progress import Progress
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

CHECK_CONFIGURATION = "configuration"


@dataclass(frozen=True, slots=True)
class Subjects:
    """Topics and namespaces to check.

    Attributes:
        topics: those of --topic.
        namespaces: those of --namespace, as TENANT/NAMESPACE.
    """

    topics: Sequence[TopicName] = ()
    namespaces: Sequence[str] = ()


async def examine(config: EngineConfig, wanted: Subjects, timeout_s: float, progress: Progress) -> list[Finding]:
    """Check a cluster and this machine; return the findings, without secrets and control characters.

    Args:
        config: options of a broker.
        wanted: topics and namespaces to check.
        timeout_s: limit of the whole examination, in seconds.
        progress: gets the begin and end of each check.
    """
    clients, deadline = open_clients(config), Deadline(timeout_s)
    await clients.log_in(deadline)
    found = await _Examination(clients, wanted, deadline, progress).run()
    redactor = Redactor(clients.secrets)
    return [redactor.finding(one) for one in found]


class _Examination:
    """One examination. Each check waits for the observations that it needs.

    Args:
        clients: clients of the cluster.
        wanted: topics and namespaces to check.
        deadline: the end.
        progress: gets the begin and end of each check.
    """

    def __init__(self, clients: Clients, wanted: Subjects, deadline: Deadline, progress: Progress) -> None:
        self._clients = clients
        self._wanted = wanted
        self._deadline = deadline
        self._progress = progress
        loop = asyncio.get_running_loop()
        self._connecting = loop.create_task(store.connect_stores(clients, deadline))
        self._asking = loop.create_task(ask_admin.ask_admin_apis(clients, deadline))
        self._shaking = loop.create_task(ask_broker.shake_hands(clients, deadline))

    async def run(self) -> list[Finding]:
        """Return the findings of all checks, and close the connections."""
        checks: dict[str, Coroutine[Any, Any, list[Finding]]] = {
            "machine": self._machine(),
            "DNS": self._names(),
            "service URL": self._brokers(),
            "admin API": self._admin(),
            "versions and clocks": self._versions(),
            "metadata store": self._store(),
            "same cluster": self._cluster(),
            "bookies": self._bookies(),
            "explicit LAC, topics and tiered storage": self._subjects(),
        }
        try:
            found = await asyncio.gather(*(self._bounded(name, check) for name, check in checks.items()))
        finally:
            for task in (self._connecting, self._asking, self._shaking):
                task.cancel()
            await self._clients.close()
        return [*self._configuration(), *(finding for findings in found for finding in findings)]

    async def _bounded(self, name: str, check: Coroutine[Any, Any, list[Finding]]) -> list[Finding]:
        """Run a check until the end; one that has not ended then has failed."""
        self._progress.begin(name)
        try:
            async with self._deadline.whole():
                return await check
        except TimeoutError:
            seconds = f"{self._deadline.seconds:g}"
            return [fail(name, f"did not end in {seconds} s", "raise --timeout; correct the other errors first")]
        except Exception as error:  # noqa: BLE001 - the results of the other checks are still useful
            return [fail(name, f"unexpected error: {type(error).__name__}: {error}", "report it with the version used")]
        finally:
            self._progress.end(name)

    def _configuration(self) -> list[Finding]:
        problems = self._clients.problems
        if not problems:
            return [ok(CHECK_CONFIGURATION, "the options are valid, and their files can be used")]
        remedy = "correct the option or its file, or let this machine reach the server that it names"
        return [fail(CHECK_CONFIGURATION, text, remedy) for text in problems]

    async def _machine(self) -> list[Finding]:
        return machine.machine_findings(observe_machine(self._clients.config))

    async def _names(self) -> list[Finding]:
        return names.name_findings(await dns.resolve(dns.names_in(self._clients.config), self._deadline))

    async def _brokers(self) -> list[Finding]:
        clients, option = self._clients, self._clients.credentials_option
        local = clients.config.cursors is Cursors.LOCAL
        shaken = await asyncio.shield(self._shaking)
        found = brokers.broker_findings(shaken, clients.credentials, option, required=local)
        if any(one.failure is None for one in shaken):
            persistent = [topic for topic in self._wanted.topics if topic.domain == "persistent"]
            lookups = await ask_broker.look_up_owners(persistent, clients, self._deadline)
            found += brokers.owner_findings(lookups, clients.credentials, option)
        return found

    async def _admin(self) -> list[Finding]:
        return admin_api.admin_findings(await asyncio.shield(self._asking), self._clients.credentials_option)

    async def _versions(self) -> list[Finding]:
        answers = await asyncio.shield(self._asking)
        shaken = await asyncio.shield(self._shaking)
        known = {answer.url: answer.version for answer in answers}
        known |= {one.url: brokers.version_in(one.server_version) for one in shaken}
        samples = [answer.clock for answer in answers if answer.clock is not None]
        return [*versions.version_findings(known), *clocks.clock_findings(samples)]

    async def _store(self) -> list[Finding]:
        failure = await asyncio.shield(self._connecting)
        answers = await store.ask_store(self._clients, failure, self._deadline)
        config = self._clients.config
        return metadata_store.store_findings(answers, config.pool, config.pool_uid)

    async def _cluster(self) -> list[Finding]:
        failure = await asyncio.shield(self._connecting)
        if failure is not None or not any(one.failure is None for one in await asyncio.shield(self._asking)):
            return []  # their own checks have failed
        registered, listed = await asyncio.gather(
            store.registered_brokers(self._clients, failure, self._deadline),
            ask_admin.listed_brokers(self._clients, self._deadline),
        )
        return metadata_store.cluster_findings(registered, listed)

    async def _bookies(self) -> list[Finding]:
        failure = await asyncio.shield(self._connecting)
        if failure is not None:
            return bookies.bookie_findings(bookies.BookieAnswers(failure=failure))
        return bookies.bookie_findings(await ask_bookie.ask_bookies(self._clients, self._deadline))

    async def _subjects(self) -> list[Finding]:
        failure = await asyncio.shield(self._connecting)
        answers = await asyncio.shield(self._asking)
        # Brokers that do not answer take their time. So the topics do not wait for them.
        intervals, (sampled, others) = await asyncio.gather(
            ask_admin.lac_intervals(self._clients, answers, self._deadline), self._topics(failure, answers)
        )
        return [*explicit_lac.lac_findings(intervals, sampled, self._clients.credentials_option), *others]

    async def _topics(
        self, failure: Failure | None, answers: Sequence[AdminAnswer]
    ) -> tuple[list[explicit_lac.TopicLac], list[Finding]]:
        """Return the samples of the topics' last confirmed entries, and the other findings about topics and namespaces."""
        if failure is not None or self._clients.stores is None:
            return [], self._unread(failure)
        cluster, wanted = self._clients.stores.cluster, self._wanted
        found_topics, found_namespaces = await asyncio.gather(
            subjects.find_topics(wanted.topics, cluster, self._deadline),
            subjects.find_namespaces(wanted.namespaces, cluster, self._deadline),
        )
        ledgers: dict[TopicName, ManagedLedgerInfo] = {}
        for infos in (*(one.ledgers for one in found_topics), *(one.ledgers for one in found_namespaces)):
            ledgers |= infos
        sampled, copies, state = await asyncio.gather(
            lac.sample_topics(ledgers, self._clients, self._deadline),
            self._offloaded(ledgers),
            self._state(found_topics, found_namespaces, answers),
        )
        return sampled, [*state, *tiered.tiered_findings(copies, len(ledgers))]

    def _unread(self, failure: Failure | None) -> list[Finding]:
        """Return a finding for each topic and namespace that cannot be checked without the metadata store."""
        text = "not checked: the metadata store cannot be used" if failure is not None else "not checked"
        remedy = "correct the errors of the metadata store first"
        return [
            *(fail(topics.CHECK, text, remedy, str(topic)) for topic in self._wanted.topics),
            *(fail(topics.CHECK_NAMESPACE, text, remedy, name) for name in self._wanted.namespaces),
        ]

    async def _offloaded(self, ledgers: Mapping[TopicName, ManagedLedgerInfo]) -> list[tiered.OffloadedCopy]:
        if self._clients.tiered is None:
            return []
        return await offloaded.open_offloaded(ledgers, self._clients.tiered, self._deadline)

    async def _state(
        self,
        found_topics: Sequence[subjects.NamedTopic],
        found_namespaces: Sequence[subjects.NamedNamespace],
        answers: Sequence[AdminAnswer],
    ) -> list[Finding]:
        """Return the findings about topics and namespaces; those of the admin API only if it answers."""
        config, admin, option = self._clients.config, self._clients.admin, self._clients.credentials_option
        local = config.cursors is Cursors.LOCAL
        topic_answers = [one.answers for one in found_topics]
        namespace_answers = [one.answers for one in found_namespaces]
        if admin is not None and any(answer.failure is None for answer in answers):
            pool = f"{config.pool}@{config.pool_uid}" if config.pool_uid else config.pool
            settings = next((one.configuration for one in answers if one.configuration is not None), None)
            topic_answers = await asyncio.gather(
                *(policies.ask_about_topic(one, admin, pool, self._deadline) for one in found_topics)
            )
            namespace_answers = await asyncio.gather(
                *(policies.ask_about_namespace(one, admin, settings, self._deadline) for one in found_namespaces)
            )
        return [
            *(found for one in topic_answers for found in topics.topic_findings(one, option, local_cursors=local)),
            *(
                found
                for one in namespace_answers
                for found in topics.namespace_findings(one, option, local_cursors=local)
            ),
        ]

"""Check of the metadata store: connection and login, the right to read Pulsar's nodes, the right to write the pool's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.failure import BOOKKEEPER_STORE, METADATA_STORE, Failure, FailureKind, remedy_of
from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECK: Final = "metadata store"
CHECK_READ: Final = "metadata rights: read"
CHECK_WRITE: Final = "metadata rights: write"
CHECK_POOL: Final = "pool name"
CHECK_CLUSTER: Final = "same cluster"

MAX_LISTED: Final = 4


@dataclass(frozen=True, slots=True)
class ReadPath:
    """A node that brokers read.

    Attributes:
        path: the node.
        purpose: its content.
        of_bookies: whether it is in the bookies' store.
        required: whether a cluster cannot be without it.
    """

    path: str
    purpose: str
    of_bookies: bool = False
    required: bool = False


LEDGERS: Final = ReadPath("/ledgers", "ledgers", of_bookies=True, required=True)
AVAILABLE: Final = ReadPath("/ledgers/available", "registered bookies", of_bookies=True, required=True)
ACTIVE_BROKERS: Final = "/loadbalance/brokers"
"""Node of the active brokers: one child for each, with its name in /admin/v2/brokers (Pulsar's load managers)."""

RACKS: Final = ReadPath("/bookies", "racks of bookies")
_ALWAYS: Final = (
    ReadPath("/managed-ledgers", "ledgers of topics"),
    ReadPath("/admin/policies", "tenants and namespaces"),
    ReadPath("/admin/partitioned-topics", "numbers of partitions"),
    LEDGERS,
    AVAILABLE,
)


def read_paths(*, locality: bool) -> tuple[ReadPath, ...]:
    """Return the nodes that every broker reads.

    Args:
        locality: whether the broker has a locality, so that it reads the racks of bookies.
    """
    return (*_ALWAYS, RACKS) if locality else _ALWAYS


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """Answer to the read of a node.

    Attributes:
        node: the node.
        exists: whether it exists; False after a failure.
        failure: the reason of a failure; None after a success.
    """

    node: ReadPath
    exists: bool = False
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class StoreAnswers:
    """Answers of the metadata store.

    Attributes:
        url: its URL, for the report.
        failure: the reason why it cannot be used; None after a success.
        reads: the nodes that were read.
        writes: path of each checked node of the pool, with the reason why it could not be written; None for none.
        members: URL of each live broker of a pool of this name, with its pool's uid; None if unknown.
        members_failure: the reason why the members are unknown; None for none.
        of_bookies: whether the failure is that of the bookies' store, which is another one; then the URL is its own.
    """

    url: str
    failure: Failure | None = None
    reads: Sequence[NodeAnswer] = ()
    writes: Mapping[str, Failure | None] | None = None
    members: Mapping[str, str | None] | None = None
    members_failure: Failure | None = None
    of_bookies: bool = False


def store_findings(answers: StoreAnswers, pool: str, pool_uid: str) -> list[Finding]:
    """Return the findings about the metadata store.

    Args:
        answers: its answers.
        pool: name of the pool.
        pool_uid: uid of the pool; empty for none.
    """
    if answers.failure is not None:
        remedy = remedy_of(answers.failure, BOOKKEEPER_STORE if answers.of_bookies else METADATA_STORE)
        if answers.failure.kind is FailureKind.RIGHTS:
            remedy = "correct the option or the right that the error names"
        return [fail(CHECK, answers.failure.text, remedy, answers.url)]
    found = [ok(CHECK, "answers, and accepts this client", answers.url)]
    found += _reads(answers.reads)
    found += [_write(path, failure) for path, failure in (answers.writes or {}).items()]
    if answers.members_failure is not None:
        found.append(_denied(CHECK_POOL, pool, answers.members_failure))
    elif answers.members is not None:
        found.append(_members(answers.members, pool, pool_uid))
    return found


def cluster_findings(registered: frozenset[str] | None, listed: frozenset[str] | None) -> list[Finding]:
    """Return the finding about metadata store and admin API being those of one cluster. Each may be right on its own.

    Args:
        registered: names of the brokers that are registered in the store; None if unknown.
        listed: names of the active brokers by the admin API; None if unknown.
    """
    if registered is None or not listed:
        unknown = f"the brokers in {ACTIVE_BROKERS}" if registered is None else "the admin API's list of brokers"
        return [ok(CHECK_CLUSTER, f"not compared: {unknown} cannot be read")]
    if registered & listed:
        return [ok(CHECK_CLUSTER, f"the admin API's brokers are registered in the store: {_listed(sorted(listed))}")]
    remedy = "correct metadata-store-url, or service-url and admin-url: all three must be those of one cluster"
    if not registered:
        return [warn(CHECK_CLUSTER, f"no broker is registered in {ACTIVE_BROKERS} of the metadata store", remedy)]
    observed = (
        f"the store has the brokers {_listed(sorted(registered))}, and the admin API lists {_listed(sorted(listed))}"
    )
    return [fail(CHECK_CLUSTER, observed, remedy)]


def _reads(answers: Sequence[NodeAnswer]) -> list[Finding]:
    """Return a finding for each problem, and one for all nodes without any."""
    problems, good = [], []
    for one in answers:
        if one.failure is not None:
            problems.append(_denied(CHECK_READ, one.node.path, one.failure))
        elif one.exists:
            good.append(one.node.path)
        elif one.node.required:
            problems.append(
                fail(
                    CHECK_READ,
                    f"is missing: it has the {one.node.purpose}",
                    "correct the chroot or the namespace in metadata-store-url or bookkeeper-metadata-store-url",
                    one.node.path,
                )
            )
        else:
            problems.append(
                warn(
                    CHECK_READ,
                    f"is missing: it has the {one.node.purpose}; a new cluster may have none yet",
                    "check the chroot or the namespace in metadata-store-url",
                    one.node.path,
                )
            )
    return [*problems, ok(CHECK_READ, ", ".join(good))] if good else problems


def _write(path: str, failure: Failure | None) -> Finding:
    if failure is None:
        return ok(CHECK_WRITE, "a broker may create, change and remove nodes here (dry run)", path)
    return _denied(CHECK_WRITE, path, failure)


def _denied(check: str, subject: str, failure: Failure) -> Finding:
    remedy = remedy_of(failure, METADATA_STORE)
    if failure.kind is FailureKind.RIGHTS:
        remedy = "grant the right with setAcl, or log in as another user (metadata-store-login-file)"
    return fail(check, failure.text, remedy, subject)


def _members(members: Mapping[str, str | None], pool: str, uid: str) -> Finding:
    others = sorted(url for url, its in members.items() if its not in {None, uid})
    if others:
        return fail(
            CHECK_POOL,
            f"another pool of this name has live brokers here: {_listed(others)}",
            "give the pool another name, or the same pool-uid if they are one pool",
            pool,
        )
    if members:
        return ok(CHECK_POOL, f"live brokers of this pool: {_listed(sorted(members))}", pool)
    return ok(CHECK_POOL, "no broker uses this name now", pool)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")

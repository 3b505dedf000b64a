"""Searches of the models, and the mutants (former or mistaken behaviour) that they must find."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from longtests.model.claims_model import ClaimsModel
from longtests.model.exclusive_model import ExclusiveModel
from longtests.model.guard_model import GuardFaults, GuardModel
from longtests.model.keeper_model import KeeperModel
from longtests.model.keys_model import KeysModel
from longtests.model.reader_model import ReaderModel
from longtests.model.split_model import SplitModel
from longtests.model.state import Faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtests.model.search import Model


@dataclass(frozen=True, slots=True)
class Scenario:
    """One search.

    Attributes:
        name: one word.
        about: size and possible faults.
        make: creates the model, with or without mutants.
        short: whether it takes seconds only; `make test` runs these.
    """

    name: str
    about: str
    make: Callable[..., Model[Any]]
    short: bool = False


@dataclass(frozen=True, slots=True)
class Mutant:
    """Former behaviour, or a likely mistake, that a search must find.

    Attributes:
        name: name of the mutant.
        about: its behaviour.
        scenario: search that finds it.
        found: part of the violation's text.
    """

    name: str
    about: str
    scenario: str
    found: str


def _claims(name: str, faults: Faults, **sizes: Any) -> Callable[..., Model[Any]]:
    return lambda mutants=(): ClaimsModel(name, faults, mutants=mutants, **sizes)


def _scenario(name: str, about: str, faults: Faults, *, short: bool = False, **sizes: Any) -> Scenario:
    return Scenario(name, about, _claims(name, faults, **sizes), short)


def _exclusive(name: str, about: str, *, short: bool = False, **sizes: int) -> Scenario:
    return Scenario(name, about, lambda mutants=(): ExclusiveModel(name, mutants=mutants, **sizes), short)


def _guard(name: str, about: str, *, short: bool = False, **faults: int) -> Scenario:
    return Scenario(name, about, lambda mutants=(): GuardModel(name, GuardFaults(**faults), mutants=mutants), short)


def _keeper(name: str, about: str, *, clients: int) -> Scenario:
    make = partial(KeeperModel, name, entries=3, clients=clients)
    return Scenario(name, about, lambda mutants=(): make(mutants=mutants), short=True)


def _split(name: str, about: str, *, entries: int, short: bool = False, **faults: Any) -> Scenario:
    make = partial(SplitModel, name, entries=entries, **faults)
    return Scenario(name, f"split over 2 brokers, {about}", lambda mutants=(): make(mutants=mutants), short=short)


def _keys(name: str, about: str, *, keys: str, short: bool = False, **faults: Any) -> Scenario:
    make = partial(KeysModel, name, keys=keys, **faults)
    return Scenario(name, f"keys over 2 brokers, {about}", lambda mutants=(): make(mutants=mutants), short=short)


SCENARIOS: Final = (
    _scenario("session", "1 entry; a session may be lost", Faults(cuts=1), entries=1, short=True),
    _scenario("freeze", "1 entry; a broker's process may freeze", Faults(freezes=1), entries=1, short=True),
    _scenario(
        "reset",
        "1 broker, 1 entry; the topic may be unloaded, an administrator may reset the cursor",
        Faults(unloads=1, resets=1),
        entries=1,
        brokers=1,
        short=True,
    ),
    _scenario(
        "reset-crash",
        "1 broker, 1 entry; the owner may die, an administrator may reset the cursor",
        Faults(crashes=1, resets=1),
        entries=1,
        brokers=1,
    ),
    _scenario("crash", "1 broker, 2 entries; the owner may die", Faults(crashes=1), entries=2, brokers=1),
    _scenario(
        "unload",
        "1 broker, 2 entries; the topic may be unloaded",
        Faults(unloads=1),
        entries=2,
        brokers=1,
    ),
    _scenario("leave", "2 entries; a client may disconnect", Faults(leaves=1), entries=2),
    _scenario(
        "hand-over", "1 entry; a session may be lost, a client may disconnect", Faults(cuts=1, leaves=1), entries=1
    ),
    _scenario(
        "move", "1 entry; a session may be lost, the topic may be unloaded", Faults(cuts=1, unloads=1), entries=1
    ),
    _scenario("entries", "3 entries; a session may be lost", Faults(cuts=1), entries=3, homes=True),
    _scenario(
        "full",
        "3 entries; a session may be lost, the topic may be unloaded",
        Faults(cuts=1, unloads=1),
        entries=3,
        homes=True,
        fine=False,
        window=1,
    ),
    _exclusive(
        "exclusive",
        "Exclusive, 1 entry; broker and owner may lose their connection silently, a client may disconnect",
        entries=1,
        cuts=1,
        leaves=1,
        short=True,
    ),
    _exclusive(
        "exclusive-leave",
        "Exclusive, 2 entries; broker and owner may lose their connection silently, a client may disconnect",
        entries=2,
        cuts=1,
        leaves=1,
    ),
    _exclusive(
        "exclusive-entries",
        "Exclusive, 3 entries; broker and owner may lose their connection silently",
        entries=3,
        cuts=1,
    ),
    _exclusive(
        "exclusive-break",
        "Exclusive, 2 entries; the connection to the owner may be closed, a client may disconnect",
        entries=2,
        breaks=1,
        leaves=1,
    ),
    Scenario(
        "reader",
        "a Reader that starts at the latest message, 3 entries; the topic may be unloaded",
        lambda mutants=(): ReaderModel("reader", entries=3, mutants=mutants),
        short=True,
    ),
    _guard(
        "guard",
        "a guard, 4 entries in 2 ledgers; a broker may freeze, a client SEEK back, and the owner expire messages or the guard",
        take_overs=1,
        seeks=1,
        expiries=1,
        losses=1,
        short=True,
    ),
    _guard(
        "guard-silence",
        "a guard, 4 entries in 2 ledgers; moves may be late, a client may SEEK back, the owner may expire messages",
        silences=2,
        seeks=2,
        expiries=1,
    ),
    _keeper("keeper", "Exclusive, 2 clients, 3 entries; the binding names the owner, and the pool again", clients=2),
    _split("split", "2 entries; no fault", entries=2, short=True),
    _split("split-leave", "1 entry; the client of a broker may leave", entries=1, leaves=1),
    _split("split-break", "1 entry; the brokers' connection may break, or go silent", entries=1, breaks=1),
    _split("split-cut", "1 entry; a session may be lost", entries=1, cuts=1),
    _split("split-death", "2 entries; the coordinator may die", entries=2, deaths=1, short=True),
    _split("split-stall", "1 entry; a broker may stand still", entries=1, stalls=1),
    _keys("keys", "2 entries of one key; a client comes and leaves", keys="mm", changes=2, short=True),
    _keys("keys-break", "the same; the brokers' connection may go silent", keys="mm", changes=2, breaks=1),
    _keys("keys-death", "the same; the coordinator may die", keys="mm", deaths=1),
    _keys(
        "keys-any",
        "2 entries in any order; a client comes and leaves",
        keys="mm",
        changes=2,
        any_order=True,
        short=True,
    ),
    _keys(
        "keys-any-break",
        "the same; the brokers' connection may go silent",
        keys="mm",
        changes=2,
        breaks=1,
        any_order=True,
    ),
    _keys("keys-any-death", "2 entries in any order; the coordinator may die", keys="mm", deaths=1, any_order=True),
    _split("split-move", "1 entry; the topic may be unloaded", entries=1, moves=1),
    _keeper("keeper-alone", "the same with 1 client, which may connect to the other broker", clients=1),
)

TWO: Final = "two brokers dispatch the subscription at once"
BOTH: Final = "is with two brokers at once"
AGAIN: Final = "is delivered again after its ack was answered"

MUTANTS: Final = (
    Mutant(
        "lease-from-requests-sent",
        "a lease is counted from the last request sent, whether answered or not",
        "session",
        TWO,
    ),
    Mutant("lease-as-long-as-session", "a lease is as long as the session", "session", TWO),
    Mutant("lease-by-timer-only", "a timer checks the lease, and deliveries do not", "freeze", TWO),
    Mutant("revoke-misses-arrivals", "a consumer is admitted under a claim that was lost meanwhile", "session", TWO),
    Mutant("any-session", "the answer to a claim counts although its session has ended", "session", TWO),
    Mutant(
        "acks-sent-again-after-any-move",
        "old acks are sent again whenever the topic has a new ledger",
        "reset",
        "the reset is undone",
    ),
    Mutant(
        "owner-lease-ignored",
        "an Exclusive subscription is served while its owner is silent",
        "exclusive",
        "two brokers serve an Exclusive subscription at once",
    ),
    Mutant(
        "no-refresh-after-lapse",
        "after such a silence the old copy of the cursor stays in use",
        "exclusive-leave",
        AGAIN,
    ),
    Mutant(
        "no-refresh-within-lease",
        "a consumer that reconnects within its lease gets the mark-delete position only",
        "exclusive-break",
        AGAIN,
    ),
    Mutant(
        "claim-goes-before-acks",
        "the claim is released with the last consumer, before the owner has confirmed its acks",
        "leave",
        AGAIN,
    ),
    Mutant(
        "begins-before-acks-are-taken",
        "a subscription restarts while acks of disconnected consumers are in flight",
        "leave",
        AGAIN,
    ),
    Mutant(
        "reader-begins-anew",
        "a Reader that started at the latest message subscribes there again at a new owner",
        "reader",
        "no further steps lead",
    ),
    Mutant(
        "late-move-is-expiry",
        "a guard that a frozen broker moves late is taken for an expiry by the owner",
        "guard",
        "unacked messages are skipped",
    ),
    Mutant(
        "new-guard-is-expiry",
        "a guard that its owner has made and not moved to its place is taken for an expiry",
        "guard",
        "unacked messages are skipped",
    ),
    Mutant(
        "keeper-change-closes-nobody",
        "connected consumers stay at the former keeper when a binding names the other one",
        "keeper",
        "a consumer stays at the former keeper",
    ),
    Mutant(
        "owner-ignores-pool",
        "the owner gets a new subscription although the pool has a local cursor of it",
        "keeper-alone",
        "entry 0 is skipped",
    ),
    Mutant(
        "pool-ignores-owner",
        "the pool gets a new local cursor although the owner has the subscription",
        "keeper-alone",
        "entry 0 is skipped",
    ),
    Mutant(
        "any-epoch-grants",
        "a coordinator of a split subscription takes the leases of the former one for its own",
        "split-death",
        "no further steps lead",
    ),
    Mutant(
        "lost-member-frees-at-once",
        "the entries of a lost member are leased again before its lease ends",
        "split-break",
        BOTH,
    ),
    Mutant(
        "no-draining", "a key moves while its former consumer has messages", "keys", "two consumers have a key at once"
    ),
    Mutant(
        "ignores-pending",
        "a key moves out of order, and its next consumer gets what the former one has",
        "keys-any",
        "two consumers have an entry at once",
    ),
    Mutant(
        "no-epoch",
        "a member takes a grant of a former coordinator for one of the present",
        "keys-death",
        "two consumers have a key at once",
    ),
    Mutant(
        "goes-on-after-its-lease",
        "a member that stood still dispatches what it had",
        "split-stall",
        BOTH,
    ),
    Mutant(
        "reports-unanswered-acks",
        "a member reports acks that the owner has not answered",
        "split-move",
        "takes the move for a reset",
    ),
    Mutant(
        "resigns-at-once",
        "a coordinator gives its claim back while a member has a lease",
        "split-leave",
        BOTH,
    ),
    Mutant(
        "old-copy-goes-on", "after a claim in a new session the old copy of the cursor stays in use", "hand-over", AGAIN
    ),
)


def scenario(name: str) -> Scenario:
    """Return the scenario of this name."""
    return next(found for found in SCENARIOS if found.name == name)

"""The next step towards the setting that pools agree on: from what is wanted and what is seen, and nothing else.

Nothing is remembered between steps, so it does not matter where an earlier operator stopped. A broker is restarted only if it
says itself that it runs with another value, and if its pod is older than the value; so none is restarted twice for one value.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from readonly_operator.cluster.explicit_lac import conditions as say
from readonly_operator.cluster.explicit_lac.observed import Note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.cluster.explicit_lac.observed import BrokerSeen, ConfigSeen, Seen, WorkloadSeen
    from readonly_operator.cluster.explicit_lac.requests import Agreement, Place, Wish
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kube.status import Condition

STUCK = dt.timedelta(minutes=5)
"""A broker that does not serve so long after it was restarted is called stuck; no other is restarted either way."""
RESTORE_AT_LEAST = dt.timedelta(minutes=2)
RESTORE_PER_BROKER = dt.timedelta(minutes=3)
"""How long a deletion waits for the writable brokers to take up what was put back."""
STEP_SECONDS = 2.0
RETRY_SECONDS = 10.0
"""How soon it is looked again whether what a person must do was done."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """Set the value and write the note, by server-side apply."""

    interval_ms: int
    note: Note


@dataclass(frozen=True, slots=True)
class PutBack:
    """Put back the value that was there before (None: remove the key); the note then says so."""

    value: str | None
    note: Note


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the note: nothing is left to do."""


@dataclass(frozen=True, slots=True)
class AskHealth:
    """Ask each broker for Pulsar's own health check."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Let a broker's pod end in good order; the StatefulSet makes it anew."""

    pod: str
    uid: str


Action = SetValue | PutBack | Forget | AskHealth | Evict


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and what to say.

    Attributes:
        action: what to do; None for nothing.
        condition: what the pools say; None where verifying says all there is to say.
        refused: what those pools say that may not manage these brokers.
        again: seconds until it is to be looked at again; None for the usual time between two looks.
        released: whether pools that are being deleted need not wait any longer.
        farewell: what did not work out before they were released; empty for nothing.
    """

    action: Action | None = None
    condition: Condition | None = None
    refused: Mapping[PoolKey, Condition] = field(default_factory=dict)
    again: float | None = None
    released: bool = False
    farewell: str = ""


def plan(agreement: Agreement, seen: Seen, now: dt.datetime) -> Plan:
    """The next step.

    Args:
        agreement: what is wanted.
        seen: what is there.
        now: with a time zone.
    """
    workload = seen.workload
    allowed = tuple(wish for wish in agreement.active if workload is None or wish.allowed_by(workload))
    refused = {wish.pool: say.not_allowed(wish) for wish in agreement.active if wish not in allowed}
    if agreement.leaving and not allowed:
        return replace(_restore(agreement, seen, now), refused=refused)
    made = _keep(agreement.place, allowed, seen, now)
    return replace(made, refused=refused, released=True)  # what others still want is not put back


def _keep(place: Place, wishes: tuple[Wish, ...], seen: Seen, now: dt.datetime) -> Plan:
    if seen.missing:
        return Plan(condition=say.forbidden(place, seen.missing), again=RETRY_SECONDS)
    if seen.config is None or seen.workload is None:
        return Plan(condition=say.target_missing(place, config=seen.config is None), again=RETRY_SECONDS)
    return _manage(wishes, seen.config, seen.workload, seen, now) if wishes else Plan(again=RETRY_SECONDS)


def turned_down(agreement: Agreement, reason: str, now: dt.datetime) -> Plan:
    """What is left to do where the API server takes a step for wrong, whatever rights there are: a deletion ends some time."""
    condition = say.refused(agreement.place, reason)
    if agreement.active:
        return Plan(condition=condition, again=RETRY_SECONDS, released=True)
    late = _is_late(agreement, 0, now)
    return Plan(condition=condition, again=RETRY_SECONDS, released=late, farewell=condition.message if late else "")


def _is_late(agreement: Agreement, brokers: int, now: dt.datetime) -> bool:
    asked = max(wish.deleted_at for wish in agreement.leaving if wish.deleted_at is not None)
    return now > asked + RESTORE_AT_LEAST + brokers * RESTORE_PER_BROKER


def _manage(wishes: tuple[Wish, ...], config: ConfigSeen, workload: WorkloadSeen, seen: Seen, now: dt.datetime) -> Plan:
    place, note = wishes[0].place, config.note
    wanted = min(wish.interval_ms for wish in wishes)
    if not workload.reads:
        return Plan(condition=say.not_read(place))
    live = config.interval_ms
    if live is None:
        return Plan(condition=say.not_a_number(place, config.value or ""))
    mine = note is not None and not note.restoring and note.pool in {wish.uid for wish in wishes}
    slow = [
        broker for broker in seen.brokers if broker.interval_ms is not None and not _fits(broker.interval_ms, wanted)
    ]
    if not _fits(live, wanted):
        # not by the note, which outlives it that nobody wanted the setting for a while: then it is another try
        if any(wish.noted_ms == wanted for wish in wishes):
            return Plan(condition=say.reverted(place, wanted, config))
        if config.value is None and not slow and _complete(seen, workload):
            return Plan()  # set somewhere else, and it works
        return _first_change(wishes, config, wanted, seen)
    if slow and not mine:
        return _first_change(wishes, config, live, seen)
    good = sum(broker.interval_ms is not None for broker in seen.brokers) - len(slow)
    running = f"{good} of {workload.replicas} writable brokers run with {live} ms"
    if seen.problem:
        running = f"{place} is set to {live} ms"
    waiting = _waiting(workload, seen, now) if mine else None
    if waiting:
        stuck, reason = waiting
        if stuck and not slow:
            return Plan()  # all that could be restarted was; verifying says what does not answer
        condition = say.stopped(place, running, reason) if stuck else say.rolling(running, reason)
        return Plan(condition=condition, again=STEP_SECONDS)
    if not slow:
        return Plan()
    stubborn = [broker for broker in slow if broker.created > config.changed]
    if stubborn:
        return Plan(condition=say.not_taken(place, live, stubborn))
    if any(broker.healthy is None for broker in seen.brokers):
        return Plan(AskHealth(), say.rolling(running, "the brokers' health is asked"), again=0)
    victim = max(slow, key=lambda broker: broker.ordinal)
    return Plan(
        Evict(victim.pod, victim.uid), say.rolling(running, f"{victim.pod} is being restarted"), again=STEP_SECONDS
    )


def _first_change(wishes: tuple[Wish, ...], config: ConfigSeen, interval_ms: int, seen: Seen) -> Plan:
    """Set the value, unless it looks as if the target were not the brokers of the pool's source."""
    place = wishes[0].place
    if seen.problem:
        return Plan(condition=say.unreachable(seen.problem))
    if seen.brokers and not any(broker.address for broker in seen.brokers):
        return Plan(condition=say.other_brokers(place, wishes[0].source.admin_url), again=STEP_SECONDS * 5)
    if any(wish.restore and not wish.held for wish in wishes):
        return Plan(condition=say.not_held(), again=STEP_SECONDS)
    note = config.note
    # an earlier pool's value is not what was there before, as long as it is still that
    earlier = note is not None and (note.restoring or config.interval_ms == note.interval_ms)
    before = note.before if note is not None and earlier else config.value
    set_value = SetValue(interval_ms, Note(interval_ms, before, wishes[0].uid))
    return Plan(set_value, say.rolling(f"{place} is set to {interval_ms} ms", "brokers follow"), again=STEP_SECONDS)


def _restore(agreement: Agreement, seen: Seen, now: dt.datetime) -> Plan:
    place, config, workload = agreement.place, seen.config, seen.workload
    late = _is_late(agreement, 0 if workload is None else workload.replicas, now)
    if seen.missing:
        condition = say.forbidden(place, seen.missing)
        return Plan(
            condition=condition, released=late, farewell=condition.message if late else "", again=STEP_SECONDS * 5
        )
    if config is None or config.note is None:
        return Plan(released=True)
    if workload is not None and not any(wish.allowed_by(workload) for wish in agreement.leaving):
        return Plan(released=True, farewell=say.not_allowed(agreement.leaving[0]).message)
    note = config.note
    if not note.restoring:
        if config.interval_ms != note.interval_ms:
            return Plan(Forget(), released=True, farewell=say.left_alone(place, config))
        back = PutBack(note.before, replace(note, restoring=True))
        return Plan(back, say.restoring(place, "the value from before is put back"), again=STEP_SECONDS)
    target = config.interval_ms
    off = [
        broker
        for broker in seen.brokers
        if broker.created <= config.changed and (broker.interval_ms is None or broker.interval_ms != target)
    ]
    if workload is None or not off:
        return Plan(Forget(), released=True)
    waiting = _waiting(workload, seen, now)
    if late:
        reason = waiting[1] if waiting else "time is up"
        return Plan(Forget(), released=True, farewell=say.half_restored(place, off, reason))
    if waiting:
        return Plan(condition=say.restoring(place, waiting[1]), again=STEP_SECONDS)
    if any(broker.healthy is None for broker in seen.brokers):
        return Plan(AskHealth(), say.restoring(place, "the brokers' health is asked"), again=0)
    victim = max(off, key=lambda broker: broker.ordinal)
    restarted = say.restoring(place, f"{victim.pod} is being restarted")
    return Plan(Evict(victim.pod, victim.uid), restarted, again=STEP_SECONDS)


def _waiting(workload: WorkloadSeen, seen: Seen, now: dt.datetime) -> tuple[bool, str] | None:
    """Why no broker may be restarted now, and whether that has lasted for long; None when one may."""
    if seen.problem:
        return False, seen.problem
    ill = [broker for broker in seen.brokers if not broker.serving]
    if ill:
        reason = "; ".join(f"{broker.pod}: {broker.trouble or 'it does not answer'}" for broker in ill)
        return any(now - broker.since > STUCK for broker in ill), reason
    if len(seen.brokers) < workload.replicas:
        return False, f"{len(seen.brokers)} of {workload.replicas} pods exist"
    if not workload.settled:
        return False, "another update of the StatefulSet is under way"
    return None


def _fits(interval_ms: int, wanted: int) -> bool:
    return 0 < interval_ms <= wanted


def _complete(seen: Seen, workload: WorkloadSeen) -> bool:
    answering: Sequence[BrokerSeen] = [broker for broker in seen.brokers if broker.interval_ms is not None]
    return len(answering) == workload.replicas > 0

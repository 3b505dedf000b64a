"""The plans of `make -C lab chaos`: the same for the same seed, dense enough, and possible."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from longtests.chaos.plan import (
    CHAOS_GAP_S,
    LINK_FAULTS,
    MENU,
    METADATA,
    NODES,
    PROCESS_FAULTS,
    QUIET_S,
    SOAK_GAP_S,
    Kind,
    connected,
    make_plan,
    role,
)

SEEDS = st.integers(0, 1 << 31)


@given(SEEDS)
def test_a_seed_repeats_its_plan(seed: int) -> None:
    assert make_plan(seed, 600) == make_plan(seed, 600)


def test_another_seed_makes_another_plan() -> None:
    assert make_plan(1, 600).faults != make_plan(2, 600).faults


@given(SEEDS)
def test_fifteen_minutes_have_at_least_200_faults(seed: int) -> None:
    assert len(make_plan(seed, 900).faults) >= 200


@given(SEEDS)
def test_a_soak_has_about_a_fault_a_minute(seed: int) -> None:
    assert 95 <= len(make_plan(seed, 7200, SOAK_GAP_S).faults) <= 145


@given(SEEDS)
def test_every_fault_is_possible(seed: int) -> None:
    plan = make_plan(seed, 900)
    for fault in plan.faults:
        assert QUIET_S <= fault.at <= 900 - QUIET_S
        assert fault.at + fault.seconds <= 901
        assert (fault.kind in LINK_FAULTS) == bool(fault.peer)
        if fault.peer:
            assert connected(fault.node, fault.peer)
            assert fault.node != fault.peer
    assert all(before.at <= after.at for before, after in pairwise(plan.faults))


@given(SEEDS)
def test_two_bookies_or_owners_are_never_down_at_once_and_nobody_starts_without_metadata(seed: int) -> None:
    faults = [fault for fault in make_plan(seed, 900).faults if fault.kind in PROCESS_FAULTS]
    for index, fault in enumerate(faults):
        for later in faults[index + 1 :]:
            if later.at > fault.at + fault.seconds:
                continue
            assert fault.node != later.node
            roles = {role(fault.node), role(later.node)}
            assert roles not in ({"bookie"}, {"broker"})
            assert METADATA not in roles


def test_every_kind_of_fault_comes_in_a_thousand() -> None:
    seen = {fault.kind for seed in range(5) for fault in make_plan(seed, 900, CHAOS_GAP_S).faults}
    assert seen == set(Kind) == {choice.kind for choice in MENU}
    cut = {fault.node for seed in range(5) for fault in make_plan(seed, 900).faults if fault.kind in LINK_FAULTS}
    assert cut == set(NODES)

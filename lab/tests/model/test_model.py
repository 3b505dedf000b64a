"""The short form of `make -C lab model`: small systems have no violation, and the search finds each mutant."""

import pytest

from longtests.model.__main__ import search
from longtests.model.scenarios import MUTANTS, SCENARIOS

SHORT = [found.name for found in SCENARIOS if found.short]
QUICKLY_FOUND = 40_000
"""States."""


@pytest.mark.parametrize("name", SHORT)
def test_no_interleaving_of_a_small_system_breaks_a_promise(name):
    outcome = search(name)
    assert outcome.complete
    assert not outcome.violation, "\n".join([outcome.violation, *outcome.trace])
    assert outcome.states > 100


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_old_behaviour_is_found(mutant):
    outcome = search(mutant.scenario, (mutant.name,), QUICKLY_FOUND)
    assert mutant.found in outcome.violation
    assert len(outcome.trace) > 1

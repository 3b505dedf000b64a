"""AuthRefresh: clients that share expired credentials, and their answers."""

import itertools

import pytest
from readonly_engine.owner.auth_refresh import AuthRefresh, RefreshOutcome

OLD, NEW, OTHER = b"old", b"new", b"other"
NOTHING = RefreshOutcome()


def renewal(*clients):
    return AuthRefresh(OLD, clients, 30.0)


def test_silent_clients_are_disconnected_at_the_deadline():
    asked = renewal("a", "b")
    asked.answer("a", NEW)
    assert asked.on_timer(29.9) == NOTHING
    assert asked.on_timer(30.0) == RefreshOutcome(None, frozenset("b"))
    assert asked.done


def test_at_the_deadline_the_old_credentials_go_to_the_owners():
    asked = renewal("a", "b")
    asked.answer("a", OLD)
    assert asked.on_timer(30.0) == RefreshOutcome(OLD, frozenset("b"))
    assert renewal("a").on_timer(30.0) == RefreshOutcome(None, frozenset("a"))


def test_a_disconnected_client_does_not_delay_the_renewal():
    asked = renewal("a", "b")
    asked.answer("a", OLD)
    assert asked.leave("b") == RefreshOutcome(OLD)
    alone = renewal("a")
    assert alone.leave("a") == NOTHING
    assert alone.done


def test_unchanged_credentials_of_a_disconnected_client_are_not_used():
    asked = renewal("a", "b")
    asked.answer("a", OLD)
    asked.leave("a")
    assert asked.leave("b") == NOTHING
    assert asked.credentials is None


def test_a_client_that_connects_during_the_renewal_must_answer():
    asked = renewal("a")
    asked.ask("b")
    assert asked.answer("a", NEW) == RefreshOutcome(NEW)
    assert not asked.done
    assert asked.answer("b", OTHER).disconnect == {"b"}


def test_credentials_are_never_printed():
    assert "new" not in repr(renewal("a").answer("a", NEW))


def test_an_answer_without_a_challenge_changes_nothing():
    asked = renewal("a")
    assert asked.answer("stranger", NEW) == NOTHING
    asked.answer("a", NEW)
    assert asked.answer("a", OTHER) == NOTHING


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
@pytest.mark.parametrize("said", list(itertools.product([OLD, NEW, OTHER], repeat=3)))
def test_remaining_clients_have_the_renewed_credentials(order, said):
    """In any order of answers, one set of credentials goes to the owners once; clients with others are disconnected."""
    says = dict(zip("abc", said, strict=True))
    asked = renewal(*"abc")
    outcomes = [asked.answer(who, says[who]) for who in order]
    passed_on = [outcome.credentials for outcome in outcomes if outcome.credentials is not None]
    assert passed_on == [asked.credentials]
    assert passed_on[0] == (OLD if set(said) == {OLD} else next(says[who] for who in order if says[who] != OLD))
    expelled = frozenset().union(*(outcome.disconnect for outcome in outcomes))
    assert expelled == {who for who, what in says.items() if what != passed_on[0]}

"""Renewal, played: clients that share expired credentials, and what each says."""

from __future__ import annotations

import itertools

import pytest
from readonly_engine.owner.auth_refresh import AuthRefresh, RefreshOutcome

OLD, NEW, OTHER = b"old", b"new", b"other"
NOTHING = RefreshOutcome()


def renewal(*clients):
    return AuthRefresh(OLD, clients, 30.0)


def test_the_first_new_credentials_are_passed_on_once():
    asked = renewal("a", "b")
    assert asked.answer("a", NEW) == RefreshOutcome(NEW)
    assert not asked.done
    assert asked.answer("b", NEW) == NOTHING
    assert asked.done
    assert asked.credentials == NEW


def test_a_client_with_other_credentials_shares_them_no_longer():
    asked = renewal("a", "b")
    asked.answer("a", NEW)
    assert asked.answer("b", OTHER) == RefreshOutcome(None, frozenset("b"))


def test_a_client_that_read_its_file_too_early_does_not_decide_for_the_others():
    asked = renewal("a", "b", "c")
    assert asked.answer("a", OLD) == NOTHING
    assert asked.answer("b", NEW) == RefreshOutcome(NEW, frozenset("a"))
    assert asked.answer("c", OLD) == RefreshOutcome(None, frozenset("c"))


def test_where_nobody_has_newer_ones_the_owner_judges_the_old_ones():
    asked = renewal("a", "b")
    assert asked.answer("a", OLD) == NOTHING
    assert asked.answer("b", OLD) == RefreshOutcome(OLD)
    assert asked.done
    assert renewal("a").answer("a", OLD) == RefreshOutcome(OLD)


def test_who_says_nothing_is_sent_away_at_the_deadline_and_not_before():
    asked = renewal("a", "b")
    asked.answer("a", NEW)
    assert asked.expire(29.9) == NOTHING
    assert asked.expire(30.0) == RefreshOutcome(None, frozenset("b"))
    assert asked.done


def test_at_the_deadline_the_old_credentials_are_judged_for_want_of_any():
    asked = renewal("a", "b")
    asked.answer("a", OLD)
    assert asked.expire(30.0) == RefreshOutcome(OLD, frozenset("b"))
    assert renewal("a").expire(30.0) == RefreshOutcome(None, frozenset("a"))


def test_a_client_that_goes_is_waited_for_no_more():
    asked = renewal("a", "b")
    asked.answer("a", OLD)
    assert asked.leave("b") == RefreshOutcome(OLD)
    alone = renewal("a")
    assert alone.leave("a") == NOTHING
    assert alone.done


def test_credentials_of_one_who_answered_and_went_are_not_used():
    asked = renewal("a", "b")
    asked.answer("a", OLD)
    asked.leave("a")
    assert asked.leave("b") == NOTHING
    assert asked.credentials is None


def test_a_client_that_came_meanwhile_is_asked_too():
    asked = renewal("a")
    asked.ask("b")
    assert asked.answer("a", NEW) == RefreshOutcome(NEW)
    assert not asked.done
    assert asked.answer("b", OTHER).disconnect == {"b"}


def test_credentials_are_never_printed():
    assert "new" not in repr(renewal("a").answer("a", NEW))


def test_an_answer_that_nobody_asked_for_changes_nothing():
    asked = renewal("a")
    assert asked.answer("stranger", NEW) == NOTHING
    asked.answer("a", NEW)
    assert asked.answer("a", OTHER) == NOTHING


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
@pytest.mark.parametrize("said", list(itertools.product([OLD, NEW, OTHER], repeat=3)))
def test_who_stays_has_the_credentials_that_were_passed_on(order, said):
    """Whatever is said in whatever order: one set of credentials is passed on, once, and who has others is sent away."""
    says = dict(zip("abc", said, strict=True))
    asked = renewal(*"abc")
    outcomes = [asked.answer(who, says[who]) for who in order]
    passed_on = [outcome.credentials for outcome in outcomes if outcome.credentials is not None]
    assert passed_on == [asked.credentials]
    assert passed_on[0] == (OLD if set(said) == {OLD} else next(says[who] for who in order if says[who] != OLD))
    expelled = frozenset().union(*(outcome.disconnect for outcome in outcomes))
    assert expelled == {who for who, what in says.items() if what != passed_on[0]}

"""Subjects of commits: form, length and verb."""

from pathlib import Path

import pytest

from tests.commit_subject import LIMIT, main, problem


@pytest.mark.parametrize(
    ("subject", "word"),
    [
        ("operator: keep the lease while draining", None),
        ("split: answer SUBSCRIBE when the consumer has its keys", None),
        ("docs, tests: need one page", None),
        ('Revert "operator: keep the lease"', None),
        (f"a: add {'x' * (LIMIT - 7)}", None),
        (f"a: add {'x' * (LIMIT - 6)}", "at most 72"),
        ("keep the lease", "area"),
        ("Operator: keep the lease", "area"),
        ("operator: keep", "area"),
        ("engine: a request is refused", "imperative"),
        ("engine: refused requests", "imperative"),
        ("engine: refusing requests", "imperative"),
    ],
)
def test_a_subject_names_an_area_and_what_the_commit_does(subject: str, word: str | None) -> None:
    found = problem(subject)
    assert found is None if word is None else word in (found or "")


def test_a_message_in_a_file_is_refused_with_its_subject(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "message"
    path.write_text("engine: refused requests\n\nA body of any length.\n")
    assert main([str(path)]) == 1
    assert "engine: refused requests" in capsys.readouterr().err
    path.write_text("engine: refuse requests\n")
    assert main([str(path)]) == 0

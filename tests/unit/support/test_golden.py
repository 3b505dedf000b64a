import pytest

from tests.support.golden import check_golden


@pytest.mark.parametrize("written", ["a\nb\n", None])
def test_the_error_has_the_difference_and_the_command(tmp_path, monkeypatch, written):
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)
    path = tmp_path / "golden.txt"
    if written is not None:
        path.write_text(written)
    with pytest.raises(AssertionError) as found:
        check_golden(path, "a\nc\n")
    assert "UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/unit/support/test_golden.py, then" in str(found.value)
    assert "\n+c" in str(found.value)
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    check_golden(path, "a\nc\n")
    assert path.read_text() == "a\nc\n"

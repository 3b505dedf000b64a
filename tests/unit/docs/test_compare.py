"""examples/canary/compare.py: its counts, and the errors of its command line. Integration tests run it on a real Pulsar."""

import importlib.util

import pytest

from tests.shell_blocks.blocks import DOCS, ROOT
from tests.shell_blocks.checks import COMPARE

_SPEC = importlib.util.spec_from_file_location("compare_of_the_canary", ROOT / COMPARE)
assert _SPEC is not None
assert _SPEC.loader is not None
compare = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(compare)


def delivered(*entries: int, other: int | None = None):
    """Deliveries of entries; one of them may have other content."""
    return [
        compare.Delivered(compare.Position(7, entry, -1), b"other" if entry == other else b"%d" % entry)
        for entry in entries
    ]


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (delivered(0, 1, 2), {}),
        (delivered(0, 2), {"lost": 1}),
        (delivered(0, 1, 2, 3), {"extra": 1}),
        (delivered(0, 1, 1, 2), {"twice": 1}),
        (delivered(0, 1, 2, other=1), {"different": 1}),
        (delivered(1, 0, 2), {"out_of_order": 2}),
        (delivered(), {"lost": 3}),
    ],
)
def test_a_difference_is_counted(pool, expected):
    counts = {"owner": 3, "pool": len(pool), "lost": 0, "extra": 0, "twice": 0, "different": 0, "out_of_order": 0}
    found = compare.difference(delivered(0, 1, 2), pool)
    assert found._asdict() == {**counts, **expected}
    assert found.equal() is (expected == {})


def test_messages_of_a_batch_are_told_apart():
    batch = [compare.Delivered(compare.Position(7, 0, index), b"x") for index in range(3)]
    assert compare.difference(batch, batch[:2]).lost == 1


def test_the_page_explains_every_count():
    text = (DOCS / "how-to" / "adopt.md").read_text(encoding="utf-8")
    assert [name for name in compare.Difference._fields if f"`{name}`" not in text] == []
    assert f"at most {compare.parser().get_default('count'):,} messages" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--count", "0"], "--count 0: expected 1 to 1000000"),
        (["--count", "1000001"], "--count 1000001: expected 1 to 1000000"),
        (["--token-file", "/none"], "--token-file /none: there is no such file"),
        (["--trust-certificates", "/none"], "--trust-certificates /none: there is no such file"),
    ],
)
def test_a_wrong_option_is_named(capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        compare.main(["pulsar://a:1", "pulsar://b:1", "persistent://public/default/x", *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err

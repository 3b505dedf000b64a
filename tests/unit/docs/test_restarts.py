"""docs/how-to/pools.md names the fields of a pool whose change restarts brokers, as the model of the operator has them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/how-to/pools.md").read_text(encoding="utf-8")
GOLDEN = (ROOT / "tests/unit/operator/model/golden/fields.txt").read_text(encoding="utf-8")


def within(field: str, names: list[str]) -> bool:
    return any(field == name or field.startswith(f"{name}.") for name in names)


def test_the_page_names_each_field_that_restarts_brokers():
    (row,) = re.findall(r"^\| (image.*) \| are replaced", PAGE, re.MULTILINE)
    names = row.split(", ")
    effects = dict(re.findall(r"^([a-z]\S*): (.*)$", GOLDEN, re.MULTILINE))
    restarting = {field for field, effect in effects.items() if "restarts" in effect and not within(field, ["replay"])}
    assert {field for field in restarting if not within(field, names)} == set()
    assert {field for field in effects if field not in restarting and within(field, names)} == set()
    others = [name for name in names if not any(within(field, [name]) for field in restarting)]
    assert others == ["locality"], "the golden file has no entry of its labels (test_fields.py)"

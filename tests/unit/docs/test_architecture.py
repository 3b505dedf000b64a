"""The map of packages in docs/explanation/architecture.md is that of tests/unit/test_layers.py.

After a change of an arrow: UPDATE_DOCS=1 pytest tests/unit/docs/test_architecture.py. A new package needs a row with its purpose.
"""

import os
import re

from docsite.__main__ import DOCS
from tests.unit.test_layers import BELOW, BROKERS_ROOMS

PAGE = DOCS / "explanation" / "architecture.md"
PATH = r"(?P<path>(?:\.\.\.|engine/readonly_engine|broker)/(?P<name>\w+)/)"
ROW = re.compile(rf"^\| `{PATH}` \| (?P<purpose>.+) \| .* \|$", re.MULTILINE)


def arrows(path: str, name: str) -> str:
    """The packages that one may import, in the order of the map; its small modules are left out."""
    rooms = BROKERS_ROOMS if path.startswith("broker/") else BELOW
    packages = [*BELOW, *BROKERS_ROOMS]
    return ", ".join(sorted(rooms[name] & set(packages), key=packages.index)) or "nothing"


def test_the_map_has_each_package_and_its_arrows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = ROW.sub(lambda row: f"| `{row['path']}` | {row['purpose']} | {arrows(row['path'], row['name'])} |", text)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(made, encoding="utf-8")
    else:
        assert text == made, (
            "docs/explanation/architecture.md is behind tests/unit/test_layers.py: "
            "UPDATE_DOCS=1 .venv/bin/python -m pytest tests/unit/docs/test_architecture.py"
        )
    rows = {(row["path"].startswith("broker/"), row["name"]) for row in ROW.finditer(made)}
    assert rows == {(False, name) for name in BELOW} | {(True, name) for name in BROKERS_ROOMS}

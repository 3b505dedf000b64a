"""`make -C lab shape`: files of each folder, the largest files, import circles, and files that repeat lines of others.

Exit status 1 where modules import each other in a circle, imports for type checking included.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.support.tree import circles, folders, imports_inside, repetitions, sources

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    "engine/readonly_engine",
    "operator/readonly_operator",
    "spark/readonly_spark",
    "lab/devstack",
    "lab/bench",
    "lab/docsite",
    "lab/longtests",
    "tests",
)
SHIPPED: Final = PACKAGES[:3]


def main(argv: list[str] | None = None) -> int:
    """Print the shape; return 1 where there is a circle, 2 for a wrong argument."""
    parser = argparse.ArgumentParser(prog="make -C lab shape", description=__doc__)
    parser.add_argument(
        "--largest", type=int, default=10, metavar="N", help="number of files to list (default %(default)s)"
    )
    parser.add_argument(
        "--repeated", type=int, default=10, metavar="N", help="number of pairs to list (default %(default)s)"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout (default: this one)")
    arguments = parser.parse_args(argv)
    root = arguments.root.resolve()
    out = sys.stdout.write
    shipped = [path for package in SHIPPED for path in sources(root / package)]
    out("folder                                          files   lines\n")
    for folder in folders(root, shipped):
        out(f"{folder.path:48}{folder.files:5,} {folder.lines:7,}\n")
    everything = [path for package in PACKAGES for path in sources(root / package)]
    sizes = sorted(((len(path.read_text(encoding="utf-8").splitlines()), path) for path in everything), reverse=True)
    out(f"\nlargest of {len(everything):,} files\n")
    for lines, path in sizes[: arguments.largest]:
        out(f"{lines:6,} {path.relative_to(root)}\n")
    repeated = repetitions(root, everything)
    out(f"\npairs of files that repeat six lines: {len(repeated)}\n")
    for each in repeated[: arguments.repeated]:
        out(f"{each.lines:6} {each.files[0]}  {each.files[1]}\n")
    wrong = 0
    for kind, types in (
        ("import circles when loaded", False),
        ("import circles, imports for type checking included", True),
    ):
        found = [circle for package in PACKAGES for circle in circles(imports_inside(root / package, types=types))]
        wrong += len(found)
        out(f"\n{kind}: {len(found)}\n")
        for circle in found:
            out(f"{len(circle):6} {', '.join(circle)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""The results as tables of docs/reference/frameworks.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from longtests.frameworks.cases import BY_NAME, COUNTERPARTS
from longtests.frameworks.judge import differences
from longtests.frameworks.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from longtests.frameworks.program import Program
    from longtests.frameworks.results import Result

BEGIN: Final = "<!-- frameworks: made by make -C lab frameworks -->"
END: Final = "<!-- end of frameworks -->"

_COLUMNS: Final = (
    ("owner", "owner"),
    ("pool", "pool"),
    ("owner-partitions", "owner, 3 partitions"),
    ("pool-partitions", "pool, 3 partitions"),
    ("owner-unload", "owner, unload"),
    ("pool-unload", "pool, unload"),
    ("pool-drain", "pool, drain"),
    ("pool-kill", "pool, kill -9"),
)
_DISTURBED: Final = ("owner-unload", "pool-unload", "pool-drain", "pool-kill")
_COUNTED: Final = ("duplicates", "errors")
_NONE: Final = "-"
_EQUAL: Final = "="
_FAULT: Final = "**!**"
_DIFFERENT: Final = "**≠**"

Kept = dict[tuple[str, str, str], "Result"]


def problems(results: Sequence[Result]) -> list[str]:
    """Return runs that have faults or differ from the owner's without a reason."""
    kept = {result.key: result for result in results}
    found = []
    for result in results:
        what = _problem(result, kept)
        if what and not result.build_error and not reason(*result.key):
            found.append(f"{result.program}, {result.type}, {result.case}: {what}")
    return found


def tables(programs: Sequence[Program], results: Iterable[Result]) -> list[str]:
    """Return the lines between BEGIN and END.

    Args:
        programs: all programs, in the order of the tables.
        results: the kept results; those of other versions of a program are left out.
    """
    versions = {program.name: program.version for program in programs}
    kept = {result.key: result for result in results if versions.get(result.program) == result.version}
    notes: dict[str, int] = {}
    lines = [
        _totals(kept.values()),
        "",
        "### Results",
        "",
        f"| framework | version | language | types | {' | '.join(title for _, title in _COLUMNS)} |",
        f"|---|---|---|---|{'---|' * len(_COLUMNS)}",
    ]
    for program in programs:
        types = ", ".join(program.types)
        cells = [_cell(program, case, kept, notes) for case, _ in _COLUMNS]
        lines.append(f"| {program.title} | {program.version} | {program.language} | {types} | {' | '.join(cells)} |")
    if notes:
        lines += ["", *(f"{number}. {text}" for text, number in notes.items())]
    lines += _counts(programs, kept) + _requests(programs, kept)
    lines += ["", "### Programs", "", "| framework | package | program |", "|---|---|---|"]
    for program in programs:
        text = f"{program.page.rstrip('.')}. {program.note}".strip()
        lines.append(f"| {program.title} | `{program.package}` | {text} |")
    return lines


def _totals(results: Iterable[Result]) -> str:
    ran = [result for result in results if not result.build_error]
    total = Counter[str]()
    for result in ran:
        total.update(result.counts)
    return (
        f"{len({result.program for result in ran})} frameworks and clients, {len(ran)} runs: {total['received']:,} messages"
        f" received, {total['lost']} lost, {total['disordered']} out of order, {total['duplicates']:,} received again after a"
        " disturbance or by a fault of the framework."
    )


def _problem(result: Result, kept: Mapping[tuple[str, str, str], Result]) -> str:
    """Return faults of a run and its differences from the owner's, in words; empty if there are none."""
    if result.build_error:
        return result.build_error
    found = list(result.faults)
    owner = kept.get((result.program, result.type, COUNTERPARTS.get(result.case, "")))
    if owner is not None:
        found += differences(owner.verdict, result.verdict, disturbed=bool(BY_NAME[result.case].disturbance))
    return "; ".join(dict.fromkeys(found))


def _cell(program: Program, case: str, kept: Kept, notes: dict[str, int]) -> str:
    """Return the results of all types in one case: one sign if all types ran with the same result."""
    signs: dict[str, list[str]] = {}
    for type_ in program.types:
        result = kept.get((program.name, type_, case))
        if result is None:
            continue
        if result.build_error:
            return f"not built{_mark(result.build_error, notes)}"
        sign = _EQUAL + ("²" if result.tries > 1 else "")
        if what := _problem(result, kept):
            text = reason(*result.key) or f"No reason is known: {what}."
            sign = (_FAULT if result.faults else _DIFFERENT) + _mark(text, notes)
        signs.setdefault(sign, []).append(type_)
    ran = [type_ for types in signs.values() for type_ in types]
    if len(signs) == 1 and ran == list(program.types[:1] if BY_NAME[case].partitions else program.types):
        return next(iter(signs))
    return "<br>".join(f"{sign} {', '.join(types)}" for sign, types in signs.items()) or _NONE


def _mark(text: str, notes: dict[str, int]) -> str:
    return f" [{notes.setdefault(text, len(notes) + 1)}]"


def _counts(programs: Sequence[Program], kept: Kept) -> list[str]:
    titles = [dict(_COLUMNS)[case] for case in _DISTURBED]
    lines = [
        "",
        "### Duplicates and errors after a disturbance",
        "",
        f"| framework | type | {' | '.join(titles)} |",
        f"|---|---|{'---|' * len(titles)}",
    ]
    for program in programs:
        for type_ in program.types:
            results = [kept.get((program.name, type_, case)) for case in _DISTURBED]
            if any(result is not None and not result.build_error for result in results):
                cells = [_count_cell(result) for result in results]
                lines.append(f"| {program.title} | {type_} | {' | '.join(cells)} |")
    return lines


def _count_cell(result: Result | None) -> str:
    if result is None or result.build_error:
        return _NONE
    return ", ".join(f"{result.counts[name]} {name}" for name in _COUNTED if result.counts.get(name)) or "0"


def _requests(programs: Sequence[Program], kept: Kept) -> list[str]:
    lines = [
        "",
        "### Requests to the admin API",
        "",
        "| framework | request | status at the source cluster | status at the HTTP port of a pool |",
        "|---|---|---|---|",
    ]
    for program in programs:
        at_cluster, at_pool = {}, {}
        for (name, _, case), result in kept.items():
            if name == program.name:
                of = at_pool if BY_NAME[case].admin_of_pool else at_cluster
                for request in result.admin:
                    what, _, status = request.rpartition(" ")
                    of.setdefault(what, set()).add(status)
        for what in sorted({*at_cluster, *at_pool}):
            cells = [", ".join(sorted(of.get(what, set()))) or _NONE for of in (at_cluster, at_pool)]
            lines.append(f"| {program.title} | `{what}` | {' | '.join(cells)} |")
    return lines if len(lines) > 5 else [*lines[:3], "No program sent one."]

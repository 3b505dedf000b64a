"""Generate docs/reference/evidence.md: the kept results of the long test runs, each with its command, day and machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docsite.markdown import NOTE, code, table
from docsite.results import UNKNOWN, ResultsError, Written, column, records, stamped, total, written

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
HEAD: Final = f"""# Evidence

{NOTE}

This page has the kept results of the long test runs, also of those that failed. A program writes it from the files that the runs left. [Tests](../testing.md)
describes each command, and its rules. After a run that writes results, `make docs-pages` writes this page again.

Runs write their day and their machine since they were added to the files. Results from before have `{UNKNOWN}` instead; they are of November 2026, from
machines of 2 cores that other processes used too.

"""
CHAOS: Final = """
## Chaos, run by run
A run passes without lost messages, without messages out of order, and without other violations.

"""
MATRIX: Final = """
## Releases of Pulsar
Each cell has the result and the day. [Releases of Pulsar](releases.md#results) has the figures and the commands.

"""
BENCHES: Final = """
## Benches
[Performance](../explanation/performance.md) has the tables. The files have all single measurements.

"""
PASSED: Final = "passed"
FAILED: Final = "**failed**"


def page(root: Path = ROOT) -> str:
    """Return the whole page, Markdown.

    Args:
        root: the folder with tests/ and docs/.

    Raises:
        ResultsError: a file of results is missing, or has another form.
    """
    chaos = records(root / "lab" / "longtests" / "chaos" / "results.json")
    cells = records(root / "lab" / "longtests" / "matrix" / "results.json")
    head = ("subject", "command", "day", "machine", "result", "figures", "source")
    return "".join(
        [
            HEAD,
            table(head, [_chaos(chaos), *_pages(root), *_suites(cells)]),
            "\n",
            CHAOS,
            _runs(chaos),
            "\n",
            MATRIX,
            _releases(cells),
            "\n",
            BENCHES,
            _benches(root / "docs" / "explanation" / "performance"),
            "\n",
        ]
    )


def verdict(passed: bool) -> str:
    """Return the word for a result."""
    return PASSED if passed else FAILED


def _common(rows: Sequence[dict[str, Any]], name: str) -> str:
    """Return the values of a field, each once, in their order."""
    found = dict.fromkeys(str(row.get(name) or UNKNOWN) for row in rows)
    return ", ".join(found) if rows else UNKNOWN


def _sums(run: dict[str, Any]) -> dict[str, int]:
    names = ("count", "lost", "repeated", "disorder", "other")
    try:
        return {name: sum(fault[name] for fault in run["faults"].values()) for name in names}
    except (KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"results.json of chaos: seed {run.get('seed')}: {error!r}") from error


def _clean(sums: dict[str, int]) -> bool:
    return not (sums["lost"] or sums["disorder"] or sums["other"])


def _chaos(runs: list[dict[str, Any]]) -> list[str]:
    sums = [_sums(run) for run in runs]
    messages, faults = sum(run["messages"] for run in runs), sum(one["count"] for one in sums)
    lost, bad = sum(one["lost"] for one in sums), sum(one["disorder"] + one["other"] for one in sums)
    figures = f"{len(runs)} runs, {faults:,} faults, {messages:,} messages, {lost} lost, {bad} other violations"
    result = verdict(bool(runs) and all(map(_clean, sums)))
    source = "`lab/longtests/chaos/results.json`"
    return [
        "chaos",
        f"{code('make -C lab chaos')}, with the options of each run below",
        _common(runs, "date"),
        _common(runs, "machine"),
        result,
        figures,
        source,
    ]


def _options(run: dict[str, Any]) -> str:
    """Return the options of a run, as an argument of make; empty for none."""
    options = [option for name, option in (("local", "--local-cursors"), ("split", "--split")) if run.get(name)]
    options += [f"--gap {run['gap']:g}"] if run.get("gap") else []
    return f' CHAOS_OPTIONS="{" ".join(options)}"' if options else ""


def _runs(runs: list[dict[str, Any]]) -> str:
    rows = []
    for run in runs:
        sums = _sums(run)
        pause = max((fault["pause"] for fault in run["faults"].values()), default=0.0)
        rows.append(
            [
                code(f"make -C lab chaos SEED={run['seed']} MINUTES={run['minutes']:g}{_options(run)}"),
                str(run.get("date") or UNKNOWN),
                str(run.get("machine") or UNKNOWN),
                verdict(_clean(sums)),
                f"{sums['count']:,}",
                f"{run['messages']:,}",
                *(f"{sums[name]:,}" for name in ("lost", "repeated", "disorder", "other")),
                f"{pause:.1f} s",
            ]
        )
    names = ("command", "day", "machine", "result", "faults", "messages", "lost", "delivered again", "out of order")
    return table((*names, "other violations", "longest pause"), rows)


def _pages(root: Path) -> list[list[str]]:
    """Return the rows of the runs that write a table into a page."""
    tests, compat = root / "docs" / "testing", root / "docs" / "reference" / "compatibility.md"
    soak, model = written(tests / "chaos.md", "soak"), written(tests / "model.md", "model")
    faults, kill = written(tests / "messages.md", "faults"), written(tests / "messages.md", "owner-kill")
    attacks = tests / "hostile-clients.md"
    hostile, commands = written(attacks, "hostile"), written(attacks, "hostile commands")
    broken = {name: total(column(soak.tables[0], name)[-1:]) for name in ("lost", "out of order", "other violations")}
    faulty = {name: total(column(faults.tables[0], name)) for name in ("lost", "duplicated", "out of order")}
    harmed = total(column(hostile.tables[0], "lost by others", last=True))
    violated = [one for one in column(model.tables[0], "violation") if one != "none"]
    unfound = [one for one in column(model.tables[1], "violation") if one in {"", "none"}]
    searches, mutants = len(model.tables[0]) - 1, len(model.tables[1]) - 1
    entries, runs = total(column(faults.tables[0], "entries")), total(column(faults.tables[0], "runs"))
    gaps = zip(column(kill.tables[0], "100 consumers read"), column(kill.tables[0], "median gap"), strict=True)
    return [
        _row("soak", "soak", soak, not any(broken.values()), _first(soak.note), "chaos.md"),
        _row(
            "faults",
            "faults",
            faults,
            not any(faulty.values()),
            f"{runs} runs, {entries:,} entries, {_list(faulty)}",
            "messages.md#faults",
        ),
        _compat(compat),
        _row(
            "hostile clients",
            "hostile",
            hostile,
            harmed == 0,
            f"{len(hostile.tables[0]) - 1} attacks, {harmed} messages lost by others at the pool",
            "hostile-clients.md",
        ),
        _row(
            "malformed commands",
            "hostile",
            commands,
            None,
            f"{len(commands.tables[0]) - 1} rows of commands, in 8 forms each",
            "hostile-clients.md",
        ),
        _row(
            "model",
            "model",
            model,
            not violated and not unfound,
            f"{searches} searches, {len(violated)} violations; {mutants - len(unfound)} of {mutants} mutants found",
            "model.md",
        ),
        _row(
            "killed owners",
            "owner-kill",
            kill,
            None,
            "median gap " + "; ".join(f"{name}: {gap}" for name, gap in gaps),
            "messages.md#killed-owners",
        ),
        _release(root / "docs" / "how-to" / "release.md"),
        [
            "fuzz",
            code("make -C lab fuzz"),
            UNKNOWN,
            UNKNOWN,
            "",
            "no file has results; the page has the last ones",
            _source("messages.md#fuzzing"),
        ],
    ]


def _row(subject: str, target: str, run: Written, passed: bool | None, figures: str, page: str) -> list[str]:
    result = "" if passed is None else verdict(passed)
    return [subject, code(f"make -C lab {target}"), run.day, run.machine, result, figures, _source(page)]


def _source(page: str) -> str:
    return f"[Tests](../testing/{page})"


def _first(note: str) -> str:
    """Return the figures of a note without its last full stop."""
    return note.partition(", while")[0].rstrip(".")


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _compat(path: Path) -> list[str]:
    begin = "<!-- made by make -C lab compat: begin -->\n"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"{path.name}: {error.strerror}") from error
    day, machine, rest = stamped(text.partition(begin)[2])
    line = rest.partition("\n")[0].rstrip(".")
    if " features, " not in line:
        raise ResultsError(f"{path.name}: the counts do not follow the mark of make -C lab compat")
    return ["compat", code("make -C lab compat"), day, machine, "", line, "[Client compatibility](compatibility.md)"]


def _release(path: Path) -> list[str]:
    """Return the row of the installation from a release; it has a note and no table before its first run."""
    run = written(path, "release walk")
    subject, command = "installation", code("make -C lab test-release")
    source = "[Make a release](../how-to/release.md#installation-from-the-files-alone)"
    if not run.tables:
        return [subject, command, run.day, run.machine, "", "not run yet", source]
    if len(run.tables) != 2:
        raise ResultsError(f"{path.name}: the part of the release walk must have two tables, not {len(run.tables)}")
    lost = total(column(run.tables[1], "lost"))
    steps = dict(zip(column(run.tables[0], "step"), column(run.tables[0], "duration"), strict=True))
    figures = f"{lost} lost in the rollback; " + "; ".join(
        f"{name}: {seconds}" for name, seconds in steps.items() if name.startswith("from ")
    )
    return [subject, command, run.day, run.machine, verdict(lost == 0), figures, source]


def _suites(cells: list[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each suite of the matrix, over all releases."""
    names = dict.fromkeys(str(cell["suite"]).partition("-")[0] for cell in cells)
    rows = []
    for name in names:
        own = [cell for cell in cells if str(cell["suite"]).partition("-")[0] == name]
        bad = [f"{cell['release']} {cell['suite']}" for cell in own if not cell["passed"]]
        figures = f"{len(own) - len(bad)} of {len(own)} passed" + (f"; failed: {', '.join(bad)}" if bad else "")
        suites = " ".join(dict.fromkeys(str(cell["suite"]) for cell in own))
        command = f'make -C lab matrix MATRIX_OPTIONS="--suite {suites}"'
        days, machines = _common(own, "date"), _common(own, "machine")
        rows.append(
            [
                f"matrix: {name}",
                code(command),
                days,
                machines,
                verdict(not bad),
                figures,
                "`lab/longtests/matrix/results.json`",
            ]
        )
    return rows


def _releases(cells: list[dict[str, Any]]) -> str:
    suites = list(dict.fromkeys(str(cell["suite"]) for cell in cells))
    by_place = {(cell["release"], cell["suite"]): f"{verdict(cell['passed'])} {cell['date']}" for cell in cells}
    releases = dict.fromkeys(str(cell["release"]) for cell in cells)
    return table(
        ("release", *suites),
        [[release, *(by_place.get((release, suite), "not run") for suite in suites)] for release in releases],
    )


def _benches(folder: Path) -> str:
    rows = []
    for path in sorted(folder.glob("*.json")):
        try:
            made = json.loads(path.read_text(encoding="utf-8"))
            name, day, machine, release = made["bench"], made["at"][:10], made["machine"], made["settings"]["Pulsar"]
        except (ValueError, KeyError, TypeError) as error:
            raise ResultsError(f"{path.name}: {error!r}") from error
        source = f"[{path.name}](../explanation/performance/{path.name})"
        rows.append([name, code(f"python -m bench {name}"), day, machine, f"Pulsar {release}", source])
    return table(("bench", "command", "day", "machine", "source cluster", "measurements"), rows)

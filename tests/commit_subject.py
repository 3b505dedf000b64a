"""Check subjects of commits: `area: imperative summary`, at most 72 characters.

The hook `commit-msg` of `.pre-commit-config.yaml` gives a file; CI gives a range of commits.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

LIMIT: Final = 72
_FORM: Final = re.compile(r"[a-z][a-z0-9-]*(?:, [a-z0-9-]+)*: (?P<verb>[a-z][a-z-]*)(?: \S+)+")
_NO_VERB: Final = re.compile(
    r"(?:an?|the|no|each|every|one|two|three|some|all|more|what|where|when|how|which|that|this|its?|they|in|on|of|for|with|from|by)"
    r"|\w+(?:ed|ing|er|ly|tion)"
)
_VERBS: Final = (
    "answer apply bring consider embed feed mention need offer order register rely render reply speed trigger"
)
"""Verbs that look like something else."""
_AUTOMATIC: Final = ("Merge ", "Revert ", "fixup! ", "squash! ")


def problem(subject: str) -> str | None:
    """Return what is wrong with a subject; none if it is right."""
    if subject.startswith(_AUTOMATIC):
        return None
    if len(subject) > LIMIT:
        return f"{len(subject)} characters, at most {LIMIT}"
    form = _FORM.fullmatch(subject)
    if form is None:
        return "not of the form 'area: imperative summary', as in 'operator: keep the lease while draining'"
    if _NO_VERB.fullmatch(form["verb"]) and form["verb"] not in _VERBS.split():
        return f"{form['verb']!r} is no imperative: begin with what the commit does, such as 'add', 'read', 'refuse'"
    return None


def _subjects(argument: str) -> list[str]:
    if Path(argument).is_file():
        return Path(argument).read_text(encoding="utf-8").splitlines()[:1]
    command = ["git", "log", "--no-merges", "--format=%s", argument, "--"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.splitlines()


def main(arguments: list[str]) -> int:
    """Print each wrong subject of a file with a message or of a range of commits; return the exit status."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python3 -m tests.commit_subject FILE|RANGE", file=sys.stderr)  # noqa: T201
        return 2
    wrong = [(subject, found) for subject in _subjects(arguments[0]) if (found := problem(subject))]
    for subject, found in wrong:
        print(f"{subject}\n  {found}", file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What both kinds' schemas share: names of columns, and the conditions in their status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readonly_operator.api.schema import Choice, Declared, ListOf, Number, Record, Schema


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`.

    Attributes:
        name: its heading.
        path: where its value is.
        description: what it says.
        type: string, integer or date.
        wide: whether only `-o wide` shows it.
    """

    name: str
    path: str
    description: str
    type: str = "string"
    wide: bool = False

    def openapi(self) -> dict[str, Any]:
        """An element of additionalPrinterColumns."""
        made: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "description": self.description,
            "jsonPath": self.path,
        }
        return {**made, "priority": 1} if self.wide else made


@dataclass(frozen=True, slots=True)
class Reported:
    """A string that the operator writes: only the API server reads it by this schema."""

    limits: tuple[tuple[str, Any], ...] = ()

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        return {"type": "string", **dict(self.limits)}

    def parse(self, value: Any, path: str) -> str:
        """See Schema."""
        del path
        return str(value)


def condition_column(
    name: str, condition: str, description: str, field: str = "status", *, wide: bool = False
) -> Column:
    """A column for a field of a condition."""
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].{field}', description, wide=wide)


AGE = Column("Age", ".metadata.creationTimestamp", "When it was made.", "date")
OBSERVED_GENERATION = Declared(Number(wide=True), "The metadata.generation that this status is about.")

_CONDITION: dict[str, Declared] = {
    "type": Declared(Reported((("maxLength", 316),)), "Which condition.", required=True),
    "status": Declared(Choice(("True", "False", "Unknown")), "Whether it holds.", required=True),
    "observedGeneration": Declared(Number(wide=True), "The metadata.generation that the condition is about."),
    "lastTransitionTime": Declared(Reported((("format", "date-time"),)), "When status last changed.", required=True),
    "reason": Declared(
        Reported((("minLength", 1), ("maxLength", 1024), ("pattern", "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))),
        "Why, in one word, for programs.",
        required=True,
    ),
    "message": Declared(Reported((("maxLength", 32768),)), "Why, and what to do about it, for people.", required=True),
}


def status_schema(values: dict[str, Declared], conditions: str) -> Schema:
    """The schema of a status: some values, and the conditions that the text describes."""
    listed = ListOf(Record(_CONDITION), most=16, keys=("type",))
    return Record({"observedGeneration": OBSERVED_GENERATION, **values, "conditions": Declared(listed, conditions)})

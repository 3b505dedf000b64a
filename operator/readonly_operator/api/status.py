"""Shared parts of all kinds' schemas: columns, and the conditions of the status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readonly_operator.api.schema import Choice, Declared, ListOf, Number, Record, Schema
from readonly_operator.api.structure import without


@dataclass(frozen=True, slots=True)
class Column:
    """Column of `kubectl get`.

    Attributes:
        name: its heading.
        path: path of its value.
        description: meaning of its value.
        type: string, integer or date.
        wide: whether only `-o wide` shows it.
    """

    name: str
    path: str
    description: str
    type: str = "string"
    wide: bool = False

    def openapi(self) -> dict[str, Any]:
        """Return an element of additionalPrinterColumns."""
        made: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "description": self.description,
            "jsonPath": self.path,
        }
        return {**made, "priority": 1} if self.wide else made


@dataclass(frozen=True, slots=True)
class Reported:
    """A string that the operator writes; only the API server checks it."""

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
    """Return a column for a field of a condition."""
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].{field}', description, wide=wide)


AGE = Column("Age", ".metadata.creationTimestamp", "Time since its creation.", "date")
NO_STATUS = {"observedGeneration": -1}
"""Status of an object that the operator has not reported on yet; the API server fills it in.

kstatus takes an object without a status and conditions for Current, so a tool that waits would not wait.
"""
OBSERVED_GENERATION = Declared(
    Number(least=-1, wide=True), "The metadata.generation of this status; -1 until the operator's first report."
)

_CONDITION: dict[str, Declared] = {
    "type": Declared(Reported((("maxLength", 316),)), "Type of the condition.", required=True),
    "status": Declared(Choice(("True", "False", "Unknown")), "Whether it holds.", required=True),
    "observedGeneration": Declared(Number(wide=True), "The metadata.generation of the condition."),
    "lastTransitionTime": Declared(Reported((("format", "date-time"),)), "Last change of status.", required=True),
    "reason": Declared(
        Reported((("minLength", 1), ("maxLength", 1024), ("pattern", "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))),
        "Reason in one word, for programs.",
        required=True,
    ),
    "message": Declared(Reported((("maxLength", 32768),)), "Reason and remedy, for people.", required=True),
}


def status_schema(values: dict[str, Declared], conditions: str) -> Schema:
    """Return the schema of a status: some values, and the conditions that the text describes."""
    listed = ListOf(Record(_CONDITION), most=16, keys=("type",))
    return Record({"observedGeneration": OBSERVED_GENERATION, **values, "conditions": Declared(listed, conditions)})


_CHECKS = frozenset({"x-kubernetes-validations", "pattern", "required", "enum", "default"})


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of another field's value, undescribed. The API server checks types only: a later release may allow other values.

    Attributes:
        schema: schema of the other field.
    """

    schema: Schema

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        return without(self.schema.openapi(), _CHECKS | {"description"})

    def parse(self, value: Any, path: str) -> Any:
        """See Schema."""
        return self.schema.parse(value, path)

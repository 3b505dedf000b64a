"""ValidatingAdmissionPolicies of a folder, evaluated without an API server."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cel
from readonly_operator.kube.kinds import Kind

from tests.support.yaml_documents import load_all_yaml

OPERATOR = "system:serviceaccount:pulsar-readonly-system:pulsar-readonly-operator"


@dataclass(frozen=True)
class Request:
    """A request that reaches admission.

    Attributes:
        kind: of the object.
        operation: CREATE, UPDATE or DELETE.
        new: the object to be stored; None for a deletion.
        old: the stored object; None for a creation.
        user: who asks.
        subresource: of the object; empty for the object itself.
    """

    kind: Kind
    operation: str
    new: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    user: str = OPERATOR
    subresource: str = ""

    @property
    def resource(self) -> str:
        """Return the resource as a rule names it."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


_ERRORS: Final = (KeyError, RuntimeError, TypeError, ValueError)
"""Of an expression without a value."""


class Policy:
    """One policy."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.name = body["metadata"]["name"]
        spec = body["spec"]
        self._rules = spec["matchConstraints"]["resourceRules"]
        self._conditions = [cel.compile(one["expression"]) for one in spec["matchConditions"]]
        self._variables = {one["name"]: cel.compile(one["expression"]) for one in spec.get("variables", ())}
        self._validations = [(cel.compile(one["expression"]), one["message"]) for one in spec["validations"]]

    def refusals(self, request: Request) -> list[str]:
        """Return the messages of what the policy refuses; an error of an expression is one too (failurePolicy: Fail)."""
        body = request.new or request.old or {}
        scope: dict[str, Any] = {
            "request": {
                "operation": request.operation,
                "userInfo": {"username": request.user},
            },
            "object": request.new,
            "oldObject": request.old,
            "namespaceObject": {"metadata": {"name": body.get("metadata", {}).get("namespace", "")}},
        }
        if not self._matches(request) or not all(one.execute(scope) for one in self._conditions):
            return []
        variables: dict[str, Any] = {}
        for name, expression in self._variables.items():
            # One without a value is an error where it is used.
            with contextlib.suppress(*_ERRORS):
                variables[name] = expression.execute({**scope, "variables": variables})
        found = []
        for holds, message in self._validations:
            try:
                if holds.execute({**scope, "variables": variables}) is not True:
                    found.append(message)
            except _ERRORS as error:
                found.append(f"{self.name}: {error}")
        return found

    def _matches(self, request: Request) -> bool:
        return any(
            request.kind.group in rule["apiGroups"]
            and request.resource in rule["resources"]
            and request.operation in rule["operations"]
            for rule in self._rules
        )


class Policies:
    """The policies of a folder that are bound."""

    def __init__(self, folder: Path) -> None:
        paths = [path for path in sorted(folder.glob("*.yaml")) if path.name != "kustomization.yaml"]
        bodies = [one for path in paths for one in load_all_yaml(path.read_text(encoding="utf-8"))]
        bound = {
            one["spec"]["policyName"]
            for one in bodies
            if one["kind"] == "ValidatingAdmissionPolicyBinding" and one["spec"]["validationActions"] == ["Deny"]
        }
        self.every = [Policy(one) for one in bodies if one["kind"] == "ValidatingAdmissionPolicy"]
        assert {one.name for one in self.every} == bound
        assert not [one for one in bodies if "paramKind" in one["spec"]], (
            "without its definition it refuses every user's writes"
        )

    def refusals(self, request: Request) -> list[str]:
        """Return the messages of all policies that refuse a request."""
        return [message for policy in self.every for message in policy.refusals(request)]

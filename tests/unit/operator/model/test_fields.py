"""What each field of a pool changes, against a golden file: the field alone, then in the pools of test_children.py.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/operator/model/test_fields.py, then read the diff.
"""

import pathlib
from difflib import unified_diff

from readonly_engine.config.option import options_of
from readonly_engine.config.settings import EngineConfig
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.spec import PoolSpec
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import Nested
from readonly_operator.kube.digest import digest
from readonly_operator.kube.names import ANNOTATION_CONFIG_HASH, ANNOTATION_TEMPLATE_HASH
from readonly_operator.model.children import children
from readonly_operator.model.engine import engine_config
from readonly_operator.model.lookup import LookupConfig

from tests.support.golden import check_golden
from tests.unit.operator.examples import leaves, merged, replaced, without
from tests.unit.operator.model.test_children import SETTINGS, SPECS, find, lines_of

GOLDEN = pathlib.Path(__file__).parent / "golden" / "fields.txt"
OF_THE_OPERATOR = {"allowedBindings", "explicitLac", "sourceRef"}
"""Groups of fields that change no object of a pool, with fields by themselves. Their own tests show what they do."""
ALONE = {
    *("source.authentication.type", "lookup.clusterName", "locality.nodeLabels", "onDeletion"),
    *("updateStrategy.hold", "scaleToZero.after"),
}
SHOWN = 3
"""Lines of an object that are shown; of the others only a digest."""
BY_HASH = (ANNOTATION_CONFIG_HASH, ANNOTATION_TEMPLATE_HASH)


def objects(body, spec):
    return children(Pool.load(body(**spec)), LookupConfig.of([]), SETTINGS)


def objects_without(body, spec, path):
    """The objects without a field, or without the group that needs it."""
    for length in range(len(path), 0, -1):
        try:
            return objects(body, without(spec, path[:length]))
        except ApiSpecError:
            continue
    raise AssertionError(path)


def changes(old, new):
    """Each object that differs, with the lines that are added and removed, or the one that is another."""
    former = {(one["kind"], one["metadata"]["name"]): one for one in old}
    for one in new:
        key = (one["kind"], one["metadata"]["name"])
        before = former.pop(key, None)
        if before == one:
            continue
        lines = unified_diff([] if before is None else lines_of(before), lines_of(one), lineterm="", n=0)
        own = [line for line in lines if line[:2] not in {"--", "++", "@@"}]
        if found := [line for line in own if not any(changed in line for changed in BY_HASH)]:
            if [line[0] for line in found] == ["-", "+"]:
                found = [" -> ".join(line[1:].strip() for line in found)]
            yield f"  {' '.join(key)}: {found[0]}"
            yield from (f"  {line}" for line in found[1:SHOWN])
            if rest := found[SHOWN:]:
                yield f"   {len(rest)} more, {digest(rest)}"
    yield from (f"  no {kind} {name}" for kind, name in former)


def template(made):
    return find(made, "StatefulSet")["spec"]["template"]


def effect(body, path, spec):
    """The lines about a field, empty if it changes nothing in any pool."""
    for name, base in SPECS.items():
        given = merged(base, spec)
        try:
            old, new = objects_without(body, given, path), objects(body, given)
        except ApiSpecError:  # it needs other fields, which a later pool has
            continue
        if lines := list(changes(old, new)):
            where = "" if name == "minimal" else f" ({name})"
            title = f"{'.'.join(path)}{where}{': restarts brokers' if template(old) != template(new) else ''}"
            return [f"{title} | {lines[0].strip()}"] if len(lines) == 1 else [title, *lines]
    return []


def test_what_each_field_changes_is_in_the_golden_file(pool_body):
    text, nothing = [], set()
    for path, _, spec in leaves(Nested(PoolSpec).openapi()):
        lines = [] if path[0] in OF_THE_OPERATOR else effect(pool_body, path, spec)
        text += lines
        if not lines:
            nothing.add(".".join(path))
    check_golden(GOLDEN, "\n".join([*text, ""]))
    unseen = {one for one in nothing if one.partition(".")[0] not in OF_THE_OPERATOR}
    assert unseen == ALONE, "a field that changes nothing: pass it on, or test it elsewhere and name it here"


def test_each_choice_becomes_that_of_the_option(pool_body):
    """The field has the words of Kubernetes, the option those of the command line."""
    schema = Nested(PoolSpec).openapi()
    of = {".".join(path): (path, one, spec) for path, one, spec in leaves(schema)}
    checked = 0
    for option in options_of(EngineConfig):
        if not option.kind.choices or option.field not in of:
            continue
        path, one, spec = of[option.field]
        for word in one["enum"]:
            made = engine_config(Pool.load(pool_body(**replaced(spec, path, word))))
            written = made.get(option.key, option.default or word.lower())
            assert written == word.lower(), option.key
            assert written in option.kind.choices
            checked += 1
    assert checked > 8

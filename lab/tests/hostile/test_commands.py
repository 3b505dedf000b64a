"""Judging and showing the reactions to malformed commands."""

from longtests.hostile.commands import ROWS, SILENT, Reactions, settled, worse_row
from longtests.hostile.frames import CLIENT_COMMANDS, MALFORMED, SERVER_COMMANDS
from longtests.hostile.table import commands_table

COUNTS = {
    "connections": 1,
    "consumers": 1,
    "producers": 1,
    "bufferedBytes": 0,
    "tasks": 10,
    "topics": 1,
    "resident": 1 << 20,
}


def reactions(slowest=0.01, losses=0, **changes):
    by_frame = dict.fromkeys(MALFORMED, ("closes",)) | {how.replace("_", "-"): found for how, found in changes.items()}
    return Reactions(by_frame, slowest, losses)


def test_every_command_has_a_row():
    tried = [name for row in ROWS for name in row.commands]
    assert sorted(tried) == sorted([*CLIENT_COMMANDS, *SERVER_COMMANDS])
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_another_reaction_is_no_fault():
    assert worse_row(reactions(), reactions(cut=("ignores",), no_fields=("answers, closes", "error"))) == []


def test_what_others_notice_is_a_fault():
    assert worse_row(reactions(), reactions(losses=1)) == ["an innocent client lost 1 things, at the owner 0"]
    assert worse_row(reactions(losses=1), reactions(losses=1)) == []
    assert len(worse_row(reactions(), reactions(slowest=1.1))) == 1


def test_a_connection_that_hangs_is_a_fault_unless_it_hangs_at_the_owner_too():
    hanging = reactions(oversized=("closes", SILENT))
    assert worse_row(reactions(), hanging) == ["one byte over the limit: no PONG within 5 s"]
    assert worse_row(hanging, hanging) == []


def test_what_stays_at_a_broker_is_noticed():
    assert settled(COUNTS, COUNTS)
    assert settled(COUNTS, {**COUNTS, "consumers": 0, "tasks": 30, "resident": 64 << 20})
    for name in ("connections", "consumers", "producers", "bufferedBytes", "topics"):
        assert not settled(COUNTS, {**COUNTS, name: COUNTS[name] + 1})
    assert not settled(COUNTS, {**COUNTS, "tasks": 31})
    assert not settled(COUNTS, {**COUNTS, "resident": (65 << 20) + 1})


def test_a_cell_has_the_owners_reaction_before_the_pools_where_they_differ():
    owner, pool = reactions(cut=("error",)), reactions(0.02, cut=("closes", "ignores"))
    head, _, row, servers = commands_table({ROWS[0]: (owner, pool), ROWS[-1]: (owner, owner)})
    assert head.split(" | ")[1] == "cut in the middle"
    assert row.split(" | ")[:3] == ["| `CONNECT`", "error / closes or ignores", "closes"]
    assert row.endswith("| 10 / 20 ms |")
    assert servers.startswith(f"| {len(SERVER_COMMANDS)} commands of servers | error | closes |")

"""The parts of a broker that replays past messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from readonly_engine.broker.replay.access import ReplayAccess
from readonly_engine.broker.replay.backend import ReplayBackend
from readonly_engine.broker.replay.positions import ReplayPositions
from readonly_engine.broker.replay.record import ReplayRecordError, replay_folder, window_name
from readonly_engine.broker.replay.shared_record import FollowedRecord
from readonly_engine.config.replay import show_time
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.start_files import StartError
from readonly_engine.topic.replay.clock import ReplayClock

if TYPE_CHECKING:
    from readonly_engine.broker.cursors.owner_access import OwnerAccess
    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.broker.subscription.topics import TopicRegistry
    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.store import MetadataStore


def pool_uid(config: EngineConfig) -> str:
    """Return the uid of the pool: that of a replay has its first and last time.

    So a broker of a replay, one of another replay, and one of present messages are never in one pool: each refuses to start
    beside another one.
    """
    if config.replay is None:
        return config.pool_uid
    replay = f"replay-{window_name(config.replay.begin_ms, config.replay.end_ms)}"
    return f"{config.pool_uid}-{replay}" if config.pool_uid else replay


async def join_replay(store: MetadataStore, membership: PoolMembership, config: EngineConfig) -> FollowedRecord | None:
    """Go on with the replay of the pool, or begin it; return None for a broker of present messages.

    Raises:
        StartError: the options do not fit, or the metadata store does not answer.
    """
    replay = config.replay
    if replay is None:
        return None
    now_ms = time.time() * 1000
    if replay.begin_ms > now_ms:
        raise StartError(
            f"--replay-from {show_time(replay.begin_ms)} is in the future: give a time before {show_time(now_ms)}"
        )
    folder = replay_folder(membership.folder, replay.begin_ms, replay.end_ms, config.pool_uid)
    clock = ReplayClock.started(replay.begin_ms, replay.end_ms, replay.speed, now_ms, loop=replay.loop)
    try:
        await membership.check_admitted()  # else a broker that must not join would begin the replay
        return await FollowedRecord.join(store, folder, clock, config.cursor_partitions)
    except ReplayRecordError as error:
        raise StartError(f"--replay-from: {error}; delete {folder} in the metadata store to begin again") from error
    except MetadataError as error:
        raise StartError(f"--pool: {error}") from error


def replay_backend(
    store: MetadataStore,
    cluster: ClusterMetadata,
    topics: TopicRegistry,
    access: OwnerAccess,
    record: FollowedRecord,
) -> ReplayBackend:
    """Return the cursors of a replay.

    Args:
        store: the metadata store.
        cluster: the metadata.
        topics: the topics of the broker.
        access: asks owners whether clients may consume.
        record: the record of the replay.
    """
    positions = ReplayPositions(cluster, topics.replayed, record.shared)
    return ReplayBackend(store, record, ReplayAccess(access, topics.authorizes, positions))

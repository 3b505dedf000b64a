"""Every option of the source `pulsar-readonly`, with its default and its meaning, as the documentation has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from readonly_engine.metadata.url import FORMS


@dataclass(frozen=True, slots=True)
class Option:
    """The documentation of one option.

    Attributes:
        name: the name; its case is ignored.
        default: the default; empty for none.
        meaning: one or two sentences.
        use: `both`, or the only kind of query that accepts it: `batch` or `streaming`.
    """

    name: str
    default: str
    meaning: str
    use: str = "both"


OPTIONS: Final = (
    Option("metadataStoreUrl", "", f"The cluster's metadata store, {FORMS}. Required."),
    Option("topic", "", "One topic; for a partitioned topic all partitions."),
    Option("topics", "", "Several topics, separated by commas."),
    Option(
        "topicsPattern",
        "",
        "A regular expression (RE2) for the whole name of a topic, `persistent://TENANT/NAMESPACE/TOPIC` without a partition's "
        "suffix. New topics are read from their first message on.",
    ),
    Option(
        "bookkeeperMetadataStoreUrl",
        "that of `metadataStoreUrl`",
        "The bookies' metadata store, if it is another than that of the brokers: the bookies' `metadataServiceUri`.",
    ),
    Option(
        "startingOffsets",
        "`earliest` in batch, `latest` in streaming",
        "The first entry to read: `earliest`, `latest`, or JSON with one of these, a message id or a publish time per topic, "
        '`{"TOPIC": "LEDGER:ENTRY", "OTHER": "2026-11-21T12:00:00Z"}`. With a batch index, as in the column `messageId`, a batch '
        "is read from this message on. A streaming query uses it only on its first start.",
    ),
    Option(
        "endingOffsets",
        "`latest`",
        "The first entry that is not read, in the same form. With a batch index, the batch is read up to this message, not "
        "included.",
        "batch",
    ),
    Option(
        "startingTimestamp",
        "",
        "Start at this publish time: ms since the epoch, or ISO 8601 such as `2026-11-21T12:00:00Z`.",
    ),
    Option(
        "startingTimestampStrategy",
        "latest",
        "Start of a topic without a message at its publish time of the start or later: `latest`, its end, or `error`.",
    ),
    Option(
        "startingIndex",
        "",
        "Start at the message with this number in its topic or partition (column `index`): one number for all, or JSON with one "
        'for each, `{"TOPIC-partition-0": 1000}`. A batch of a producer is read whole. Requires brokers with '
        "`AppendIndexMetadataInterceptor`.",
    ),
    Option("endingTimestamp", "", "End before this publish time.", "batch"),
    Option(
        "endingIndex",
        "",
        "End before the message with this number, in the form of `startingIndex`. A batch of a producer is read whole.",
        "batch",
    ),
    Option("minPartitions", "", "Minimum number of tasks, unless there are fewer entries."),
    Option("maxBytesPerPartition", "256MiB", "Target size of a task in stored bytes."),
    Option("maxRecordsPerPartition", "", "Target number of messages of a task."),
    Option(
        "maxBytesPerTrigger",
        "",
        "Target size of a micro-batch in stored bytes, divided fairly between topics. Requires Spark 4.2.",
        "streaming",
    ),
    Option(
        "maxMessagesPerTrigger",
        "",
        "Target number of messages of a micro-batch, estimated from a sample of entries. Requires Spark 4.2.",
        "streaming",
    ),
    Option(
        "minMessagesPerTrigger",
        "",
        "Wait with the next micro-batch until there are so many messages, estimated from a sample of entries.",
        "streaming",
    ),
    Option("maxTriggerDelay", "900", "Longest wait for `minMessagesPerTrigger`, in seconds.", "streaming"),
    Option(
        "holdSubscription",
        "",
        "Name of a subscription that holds back messages which the stream has not read: retention waits for it. It is created in "
        "every topic, has no consumer, and moves with the commits. It stays before a chunked message that is incomplete there. "
        "Delete it when the stream is not needed any more.",
        "streaming",
    ),
    Option(
        "adminUrl",
        "",
        "Brokers' admin API for `holdSubscription`: http(s)://HOST:PORT, several by commas.",
        "streaming",
    ),
    Option("adminTokenFile", "", "File with the token for the admin API, present on the driver.", "streaming"),
    Option("adminTls.trustCertificates", "", "PEM file of the certificate authorities of the admin API.", "streaming"),
    Option("adminTls.certificate", "", "PEM file of the client certificate for the admin API.", "streaming"),
    Option("adminTls.key", "", "PEM file of the client key for the admin API.", "streaming"),
    Option(
        "adminTls.hostnameVerification",
        "true",
        "Whether the certificate of the admin API must match its host name.",
        "streaming",
    ),
    Option("batchBytes", "8MiB", "Target size of an Arrow record batch sent to the JVM."),
    Option(
        "failOnDataLoss",
        "true",
        "`true`: trimmed messages and deleted topics are an error. `false`: the remaining messages are read.",
    ),
    Option(
        "readCompacted",
        "false",
        "Read the compacted view of the topic and the messages after it. The first micro-batch of a stream has the whole view, "
        "whatever its limits; later ones have every message.",
    ),
    Option(
        "valueSchema",
        "raw",
        "`raw`: the column `value` is binary. `auto`: values are decoded as the topic's newest schema. JSON: values are decoded "
        'as this schema, `{"type": "AVRO", "schema": {...}}`.',
    ),
    Option(
        "fieldColumns",
        "false",
        "`true`: each field of the decoded struct is a column of its own, and all other columns have the prefix `__`, as "
        "`__publishTime`.",
    ),
    Option("rawValue", "false", "Add the column `rawValue`: the payload of each decoded value."),
    Option("decodeErrors", "fail", "Result of a value that its schema cannot decode: `fail` or `null`."),
    Option(
        "retryTimeout",
        "300",
        "Time for which planning and reads are tried again while the metadata store or bookies do not answer, in seconds. A "
        "stream continues with the topics that can be read.",
    ),
    Option(
        "requiredFile",
        "",
        "A file that each task must find before it reads: a machine that does not see its folder is an error. An export with "
        "`--shared-folder` names a file of its table.",
    ),
    Option("readsInFlight", "4", "Concurrent read requests of a task, each of about 1 MiB."),
    Option("maxReadBytesPerSecond", "", "Maximum read rate of a task from bookies, averaged over one second."),
    Option(
        "maxQueryReadBytesPerSecond",
        "",
        "Maximum read rate of all tasks of the query from bookies. Each task gets an equal share, whether others use theirs or "
        "not.",
    ),
    Option(
        "concurrentTasks",
        "all tasks of the batch",
        "Number of tasks that Spark runs at once, by which `maxQueryReadBytesPerSecond` is divided: cores of all executors.",
    ),
    Option(
        "bookieTls.trustCertificates",
        "",
        "PEM file of the bookies' certificate authorities. This option or the next two enable TLS.",
    ),
    Option("bookieTls.certificate", "", "PEM file of the client certificate."),
    Option("bookieTls.key", "", "PEM file of the client key."),
    Option("bookieTls.hostnameVerification", "true", "Whether the certificate of a bookie must match its host name."),
    Option("bookieLoginFile", "", "File with `USER:PASSWORD` for bookies (SASL DIGEST-MD5), present on every node."),
    Option(
        "metadataStoreTls.trustCertificates",
        "",
        "PEM file of the certificate authorities of ZooKeeper's servers, present on the driver. This option or the next two "
        "enable TLS to ZooKeeper.",
    ),
    Option("metadataStoreTls.certificate", "", "PEM file of the client certificate for ZooKeeper."),
    Option("metadataStoreTls.key", "", "PEM file of the client key for ZooKeeper."),
    Option(
        "metadataStoreTls.hostnameVerification",
        "true",
        "Whether the certificate of a ZooKeeper server must match its host name.",
    ),
    Option("metadataStoreLoginFile", "", "File with `USER:PASSWORD` for ZooKeeper, present on the driver."),
    Option(
        "metadataStoreLoginScheme",
        "sasl",
        "How to log in at ZooKeeper: `sasl` (SASL DIGEST-MD5) or `digest` (ZooKeeper's scheme of this name).",
    ),
    Option("tieredStorage.readPriority", "tiered-storage-first", "The copy of an offloaded ledger that is read first."),
    Option("tieredStorage.endpoint", "", "Address of the object store; default: the brokers' setting."),
    Option("tieredStorage.region", "", "Region of the object store; default: the brokers' setting."),
    Option("tieredStorage.bucket", "", "Bucket of the object store; default: the brokers' setting."),
    Option(
        "tieredStorage.credentialsFile",
        "",
        "File with the credentials, present on every node; default: the environment of the executors.",
    ),
    Option("tieredStorage.filesystemRoot", "", "Mount point of the filesystem offloader's file system."),
    Option("tieredStorage.readSize", "4MiB", "Bytes per request; less if `tieredStorage.cacheSize` is below 16 MiB."),
    Option("tieredStorage.cacheSize", "16MiB", "Read cache of each task; more if four requests need it."),
    Option("tieredStorage.requestTimeout", "30", "Timeout of one request, in seconds."),
)
"""Every option, in the order of the documentation."""

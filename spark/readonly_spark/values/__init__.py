"""Message values: a topic's schema, the Arrow and Spark types it maps to, and decoders. Pure.

schema       schema versions and the types that they map to
decoder      payloads to an Arrow column
avro         Avro and JSON schemas
protobuf     Protobuf schemas
type_names   Arrow types and the names of Spark's types
"""

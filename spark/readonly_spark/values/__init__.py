"""Message values: a topic's schema, the Arrow and Spark types it maps to, and decoders. Pure.

schema          schema versions and the types that they map to
decoder         payloads to an Arrow column
column_readers  the same for whole arrays, where no payload needs an object
avro            Avro and JSON schemas
avro_resolution Avro's rules for reading a value as another schema
meaning         logical types of numbers and bytes
json_values     values of JSON schemas
native_avro     Avro in C (`_avro.c`)
protobuf        Protobuf schemas
type_names      Arrow types and the names of Spark's types
"""

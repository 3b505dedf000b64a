/* Parse a stored entry as far as delivery needs it, as wire/message.py does in Python. */
#ifndef READONLY_ENGINE_STORED_H
#define READONLY_ENGINE_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "_wire.h"

enum {
    MAGIC = 2,
    CHECKSUM = 6, /* with its magic */
};

enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5 };

enum {
    PRODUCER_NAME = 1,
    SEQUENCE_ID = 2,
    PUBLISH_TIME = 3,
    PROPERTIES = 4,
    PARTITION_KEY = 6,
    NUM_MESSAGES_IN_BATCH = 11,
    ENCRYPTION_KEYS = 13,
    PARTITION_KEY_B64_ENCODED = 17,
    ORDERING_KEY = 18,
    DELIVER_AT_TIME = 19,
    MARKER_TYPE = 20,
    TXNID_LEAST_BITS = 22,
    TXNID_MOST_BITS = 23,
    UUID = 26,
    TXN_ABORT = 22,
};

typedef struct {
    const uint8_t *begin;
    size_t size;
} Bytes;

typedef struct {
    size_t start; /* of the bytes for consumers */
    Bytes producer_name;
    Bytes partition_key;
    Bytes ordering_key;
    int64_t sequence_id;
    bool key_is_base64;
    int32_t messages;
    int32_t marker_type;
    int64_t deliver_at;
    int64_t txn_least;
    int64_t txn_most;
    uint32_t seen; /* fields, as bits */
} Found;

/* One field. `value` is the number of a VARINT field; for other types, `value` bytes start at `begin`. */
typedef struct {
    uint32_t number;
    int type;
    uint64_t value;
    const uint8_t *begin;
} Field;

/* Load the field at *at and move *at behind it. False for a damaged field, or one of a type that is left to Python (groups). */
static bool load_field(const uint8_t **at, const uint8_t *end, Field *field) {
    uint64_t tag, rest;
    const uint8_t *begin = *at;
    if (!load_varint(at, end, &tag) || *at - begin > 5 || tag > UINT32_MAX || tag < 8) {
        return false;
    }
    field->number = (uint32_t)(tag >> 3);
    field->type = (int)(tag & 7);
    switch (field->type) {
    case VARINT:
        return load_varint(at, end, &field->value);
    case FIXED_64:
        rest = 8;
        break;
    case FIXED_32:
        rest = 4;
        break;
    case BYTES:
        begin = *at;
        if (!load_varint(at, end, &rest) || *at - begin > 5) {
            return false;
        }
        break;
    default:
        return false;
    }
    if (rest > (uint64_t)(end - *at)) {
        return false;
    }
    field->begin = *at;
    field->value = rest;
    *at += rest;
    return true;
}

static bool fields_are_sound(const uint8_t *at, const uint8_t *end) {
    Field field;
    while (at < end) {
        if (!load_field(&at, end, &field)) {
            return false;
        }
    }
    return true;
}

static bool parse_metadata(const uint8_t *at, const uint8_t *end, Found *found) {
    Field field;
    while (at < end) {
        if (!load_field(&at, end, &field)) {
            return false;
        }
        if (field.type == BYTES) {
            switch (field.number) {
            case PRODUCER_NAME:
                found->producer_name = (Bytes){field.begin, (size_t)field.value};
                break;
            case PARTITION_KEY:
                found->partition_key = (Bytes){field.begin, (size_t)field.value};
                break;
            case ORDERING_KEY:
                found->ordering_key = (Bytes){field.begin, (size_t)field.value};
                break;
            case PROPERTIES:
                if (!fields_are_sound(field.begin, field.begin + field.value)) {
                    return false;
                }
                break;
            case ENCRYPTION_KEYS: /* messages within messages */
            case UUID:            /* a part of a large message */
                return false;
            default:
                continue;
            }
        } else if (field.type == VARINT) {
            switch (field.number) {
            case SEQUENCE_ID:
                found->sequence_id = (int64_t)field.value;
                break;
            case PUBLISH_TIME:
                break;
            case PARTITION_KEY_B64_ENCODED:
                found->key_is_base64 = field.value != 0;
                break;
            case NUM_MESSAGES_IN_BATCH:
                found->messages = (int32_t)(uint32_t)field.value;
                break;
            case DELIVER_AT_TIME:
                found->deliver_at = (int64_t)field.value;
                break;
            case MARKER_TYPE:
                found->marker_type = (int32_t)(uint32_t)field.value;
                break;
            case TXNID_LEAST_BITS:
                found->txn_least = (int64_t)field.value;
                break;
            case TXNID_MOST_BITS:
                found->txn_most = (int64_t)field.value;
                break;
            default:
                continue;
            }
        } else {
            continue;
        }
        found->seen |= 1u << field.number;
    }
    const uint32_t required = 1u << PRODUCER_NAME | 1u << SEQUENCE_ID | 1u << PUBLISH_TIME;
    return (found->seen & required) == required;
}

/* Return false if Python must parse the entry. */
static bool parse_stored(const uint8_t *stored, size_t size, Found *found) {
    *found = (Found){.messages = 1};
    size_t at = 0;
    if (size >= MAGIC + SIZE && stored[0] == 0x0E && stored[1] == 0x02) { /* the owner's own metadata */
        size_t skipped = load_u32(stored + MAGIC);
        if (skipped > size - MAGIC - SIZE) {
            return false;
        }
        at = MAGIC + SIZE + skipped;
    }
    found->start = at;
    if (size - at >= CHECKSUM && stored[at] == 0x0E && stored[at + 1] == 0x01) {
        at += CHECKSUM;
    }
    if (size - at < SIZE) {
        return false;
    }
    size_t metadata = load_u32(stored + at);
    at += SIZE;
    return metadata <= size - at && parse_metadata(stored + at, stored + at + metadata, found);
}

#endif

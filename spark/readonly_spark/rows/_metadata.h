/* The metadata of simple entries and messages (message.proto). Each function returns false for unknown fields and for damage,
   and reads nothing beyond the given end. */
#ifndef READONLY_SPARK_METADATA_H
#define READONLY_SPARK_METADATA_H

#include "_columns.h"
#include "_wire.h"

static bool load_text(const uint8_t **at, const uint8_t *end, Text *text) {
    uint64_t size;
    if (!load_varint(at, end, &size) || size > (uint64_t)(end - *at)) {
        return false;
    }
    *text = (Text){*at, (size_t)size};
    *at += size;
    return true;
}

static bool load_bool(const uint8_t **at, const uint8_t *end, bool *truth) {
    uint64_t number;
    if (!load_varint(at, end, &number)) {
        return false;
    }
    *truth = number != 0;
    return true;
}

enum { VARINT = 0, LENGTH = 2 };
#define TAG(field, kind) ((field) << 3 | (kind))

/* Load the key and value of a property. */
static bool load_property(const uint8_t **at, const uint8_t *end, Text *key, Text *value) {
    Text pair;
    if (!load_text(at, end, &pair)) {
        return false;
    }
    *key = *value = (Text){pair.at, 0};
    const uint8_t *next = pair.at, *stop = pair.at + pair.size;
    while (next < stop) {
        uint8_t tag = *next++;
        if (!(tag == TAG(1, LENGTH) ? load_text(&next, stop, key) : tag == TAG(2, LENGTH) && load_text(&next, stop, value))) {
            return false;
        }
    }
    return true;
}

/* The fields of one message, in a batch or alone in its entry. */
typedef struct {
    Text key, ordering_key;
    int64_t event_time, sequence_id;
    uint64_t payload_size;
    bool has_size, has_sequence_id, compacted_out, key_in_base64, null_key, null_value, properties;
} Single;

/* Load SingleMessageMetadata; return false for an unknown field. */
static bool load_single(const uint8_t *at, const uint8_t *end, Single *single) {
    *single = (Single){0};
    uint64_t number;
    Text key, value;
    while (at < end) {
        switch (*at++) {
        case TAG(1, LENGTH):
            if (!load_property(&at, end, &key, &value)) {
                return false;
            }
            single->properties = true;
            break;
        case TAG(2, LENGTH):
            if (!load_text(&at, end, &single->key)) {
                return false;
            }
            break;
        case TAG(3, VARINT):
            if (!load_varint(&at, end, &single->payload_size) || single->payload_size > INT32_MAX) {
                return false;
            }
            single->has_size = true;
            break;
        case TAG(4, VARINT):
            if (!load_bool(&at, end, &single->compacted_out)) {
                return false;
            }
            break;
        case TAG(5, VARINT):
            if (!load_varint(&at, end, &number)) {
                return false;
            }
            single->event_time = (int64_t)number;
            break;
        case TAG(6, VARINT):
            if (!load_bool(&at, end, &single->key_in_base64)) {
                return false;
            }
            break;
        case TAG(7, LENGTH):
            if (!load_text(&at, end, &single->ordering_key)) {
                return false;
            }
            break;
        case TAG(8, VARINT):
            if (!load_varint(&at, end, &number)) {
                return false;
            }
            single->sequence_id = (int64_t)number;
            single->has_sequence_id = true;
            break;
        case TAG(9, VARINT):
            if (!load_bool(&at, end, &single->null_value)) {
                return false;
            }
            break;
        case TAG(10, VARINT):
            if (!load_bool(&at, end, &single->null_key)) {
                return false;
            }
            break;
        default:
            return false;
        }
    }
    return single->has_size;
}

/* MessageMetadata. */
typedef struct {
    Text producer_name, replicated_from, schema_version;
    int64_t publish_time, broker_time, index;
    uint64_t messages;
    bool has_publish_time, batched, transaction;
    Single message;
} Metadata;

/* Load MessageMetadata; return false unless the entry is simple. */
static bool load_metadata(const uint8_t *at, const uint8_t *end, Metadata *metadata) {
    uint64_t number;
    Text text, value;
    Single *message = &metadata->message;
    while (at < end) {
        uint64_t tag;
        if (!load_varint(&at, end, &tag)) {
            return false;
        }
        switch (tag) {
        case TAG(1, LENGTH):
            if (!load_text(&at, end, &metadata->producer_name)) {
                return false;
            }
            break;
        case TAG(2, VARINT):
            if (!load_varint(&at, end, &number)) {
                return false;
            }
            message->sequence_id = (int64_t)number;
            message->has_sequence_id = true;
            break;
        case TAG(3, VARINT):
            if (!load_varint(&at, end, &number)) {
                return false;
            }
            metadata->publish_time = (int64_t)number;
            metadata->has_publish_time = true;
            break;
        case TAG(4, LENGTH):
            if (!load_property(&at, end, &text, &value)) {
                return false;
            }
            message->properties = true;
            break;
        case TAG(5, LENGTH):
            if (!load_text(&at, end, &metadata->replicated_from)) {
                return false;
            }
            break;
        case TAG(6, LENGTH):
            if (!load_text(&at, end, &message->key)) {
                return false;
            }
            break;
        case TAG(7, LENGTH): /* replicate_to */
            if (!load_text(&at, end, &text)) {
                return false;
            }
            break;
        case TAG(8, VARINT): /* compression: Python decompresses */
            if (!load_varint(&at, end, &number) || number) {
                return false;
            }
            break;
        case TAG(11, VARINT):
            if (!load_varint(&at, end, &metadata->messages) || metadata->messages > INT32_MAX) {
                return false;
            }
            metadata->batched = true;
            break;
        case TAG(12, VARINT):
            if (!load_varint(&at, end, &number)) {
                return false;
            }
            message->event_time = (int64_t)number;
            break;
        case TAG(16, LENGTH):
            if (!load_text(&at, end, &metadata->schema_version)) {
                return false;
            }
            break;
        case TAG(17, VARINT):
            if (!load_bool(&at, end, &message->key_in_base64)) {
                return false;
            }
            break;
        case TAG(18, LENGTH):
            if (!load_text(&at, end, &message->ordering_key)) {
                return false;
            }
            break;
        case TAG(22, VARINT):
        case TAG(23, VARINT):
            metadata->transaction = true;
            /* fall through */
        case TAG(9, VARINT):  /* uncompressed_size */
        case TAG(19, VARINT): /* deliver_at_time */
        case TAG(24, VARINT): /* highest_sequence_id */
            if (!load_varint(&at, end, &number)) {
                return false;
            }
            break;
        case TAG(25, VARINT):
            if (!load_bool(&at, end, &message->null_value)) {
                return false;
            }
            break;
        case TAG(30, VARINT):
            if (!load_bool(&at, end, &message->null_key)) {
                return false;
            }
            break;
        default: /* encrypted, a chunk, a marker, or an unknown field */
            return false;
        }
    }
    return metadata->producer_name.at && message->has_sequence_id && metadata->has_publish_time;
}

static bool load_broker_metadata(const uint8_t *at, const uint8_t *end, Metadata *metadata) {
    uint64_t number;
    while (at < end) {
        uint8_t tag = *at++;
        if ((tag != TAG(1, VARINT) && tag != TAG(2, VARINT)) || !load_varint(&at, end, &number)) {
            return false;
        }
        *(tag == TAG(1, VARINT) ? &metadata->broker_time : &metadata->index) = (int64_t)number;
    }
    return true;
}

/* Keys of bytes are stored as base64. Return the decoded size of canonical, padded base64; -1 for anything else. */
static Py_ssize_t base64_size(Text text) {
    if (text.size % 4) {
        return -1;
    }
    size_t padding = 0;
    while (padding < 2 && padding < text.size && text.at[text.size - 1 - padding] == '=') {
        padding++;
    }
    return (Py_ssize_t)(text.size / 4 * 3 - padding);
}

static int base64_digit(uint8_t letter) {
    return letter >= 'A' && letter <= 'Z'   ? letter - 'A'
           : letter >= 'a' && letter <= 'z' ? letter - 'a' + 26
           : letter >= '0' && letter <= '9' ? letter - '0' + 52
           : letter == '+'                  ? 62
           : letter == '/'                  ? 63
                                            : -1;
}

static bool base64_decode(Text text, uint8_t *out, size_t size) {
    for (size_t group = 0; group < text.size / 4; group++) {
        const uint8_t *letters = text.at + 4 * group;
        size_t here = size - 3 * group < 3 ? size - 3 * group : 3;
        uint32_t bits = 0;
        for (size_t index = 0; index < 4; index++) {
            int digit = index > here ? 0 : base64_digit(letters[index]);
            if (digit < 0) {
                return false;
            }
            bits = bits << 6 | (uint32_t)digit;
        }
        for (size_t index = 0; index < here; index++) {
            *out++ = (uint8_t)(bits >> (16 - 8 * index));
        }
        if (here < 3 && bits & ((1u << (24 - 8 * here)) - 1)) {
            return false;
        }
    }
    return true;
}

static bool is_utf8(Text text) {
    const uint8_t *at = text.at, *end = at + text.size;
    while (at < end) {
        uint8_t lead = *at++;
        if (lead < 0x80) {
            continue;
        }
        int more = lead >= 0xC2 && lead <= 0xDF ? 1 : (lead & 0xF0) == 0xE0 ? 2 : lead >= 0xF0 && lead <= 0xF4 ? 3 : 0;
        if (!more || end - at < more) {
            return false;
        }
        if ((lead == 0xE0 && at[0] < 0xA0) || (lead == 0xED && at[0] > 0x9F) || (lead == 0xF0 && at[0] < 0x90) ||
            (lead == 0xF4 && at[0] > 0x8F)) {
            return false; /* overlong, a surrogate, or beyond U+10FFFF */
        }
        for (; more; more--) {
            if ((*at++ & 0xC0) != 0x80) {
                return false;
            }
        }
    }
    return true;
}

#endif

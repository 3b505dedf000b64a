/* The hash of an entry's sticky key, as wire/sticky_key.py computes it in Python. */
#ifndef READONLY_ENGINE_STICKY_H
#define READONLY_ENGINE_STICKY_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "_stored.h"

enum {
    UNKNOWN_HASH = -1,
    NAME_BYTES = 200, /* of a producer's name; longer ones are left to Python */
    NUMBER_BYTES = 24,
};

static uint32_t rotated(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }

static uint32_t mixed(uint32_t word) { return rotated(word * 0xCC9E2D51u, 15) * 0x1B873593u; }

/* MurmurHash3 of 32 bits with seed 0, of which Pulsar uses 31 (Murmur3_32Hash). */
static int32_t key_hash(const uint8_t *data, size_t size) {
    uint32_t hash = 0, word = 0;
    size_t at = 0;
    for (; at + 4 <= size; at += 4) {
        word = (uint32_t)data[at] | (uint32_t)data[at + 1] << 8 | (uint32_t)data[at + 2] << 16 | (uint32_t)data[at + 3] << 24;
        hash = rotated(hash ^ mixed(word), 13) * 5 + 0xE6546B64u;
    }
    word = 0;
    for (size_t i = size; i > at; i--) {
        word = word << 8 | data[i - 1];
    }
    hash ^= mixed(word) ^ (uint32_t)size;
    hash = (hash ^ hash >> 16) * 0x85EBCA6Bu;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
    return (int32_t)((hash ^ hash >> 16) & 0x7FFFFFFFu);
}

/* Return the hash of a stored entry's key; UNKNOWN_HASH if Python must compute it. */
static int32_t sticky_hash_of(const uint8_t *stored, size_t size) {
    Found found;
    if (!parse_stored(stored, size, &found)) {
        return UNKNOWN_HASH;
    }
    if (found.seen & 1u << ORDERING_KEY) {
        return key_hash(found.ordering_key.begin, found.ordering_key.size);
    }
    if (found.seen & 1u << PARTITION_KEY) {
        return found.key_is_base64 ? UNKNOWN_HASH : key_hash(found.partition_key.begin, found.partition_key.size);
    }
    uint8_t key[NAME_BYTES + NUMBER_BYTES];
    size_t name = found.producer_name.size;
    if (name > NAME_BYTES) {
        return UNKNOWN_HASH;
    }
    memcpy(key, found.producer_name.begin, name);
    int number = snprintf((char *)key + name, NUMBER_BYTES, "-%" PRId64, found.sequence_id);
    return key_hash(key, name + (size_t)number);
}

#endif

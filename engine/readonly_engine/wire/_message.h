/* MESSAGE frames: those that owners push, and those for clients. */
#ifndef READONLY_ENGINE_MESSAGE_H
#define READONLY_ENGINE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_wire.h"

/* ---- MESSAGEs of owners ---- */

/* Load the number of a field that must come next, with this tag. */
static bool load_number(const uint8_t **at, const uint8_t *end, uint8_t tag, uint64_t *number) {
    if (*at >= end || **at != tag) {
        return false;
    }
    ++*at;
    return load_varint(at, end, number);
}

typedef struct {
    uint64_t consumer_id;
    uint64_t ledger_id;
    uint64_t entry_id;
    const uint8_t *payload;
    const uint8_t *end;
} Pushed;

/* Load the MESSAGE at `at`, with its length prefix. False for anything else, for a frame that has not arrived completely, and for a
   MESSAGE with more than consumer id, ledger, entry and partition. */
static bool load_pushed(const uint8_t *at, const uint8_t *end, Pushed *pushed) {
    uint64_t size, partition;
    if (end - at < 2 * SIZE) {
        return false;
    }
    uint64_t total = load_u32(at), command = load_u32(at + SIZE);
    if (total < SIZE || total > (uint64_t)(end - at) - SIZE || command > total - SIZE || command < 2) {
        return false;
    }
    pushed->end = at + SIZE + total;
    at += 2 * SIZE;
    const uint8_t *payload = pushed->payload = at + command;
    if (at[0] != 0x08 || at[1] != 0x09) { /* type: MESSAGE */
        return false;
    }
    at += 2;
    if (!load_number(&at, payload, 0x4A, &size) || size != (uint64_t)(payload - at) || /* message */
        !load_number(&at, payload, 0x08, &pushed->consumer_id) || !load_number(&at, payload, 0x12, &size) ||
        size != (uint64_t)(payload - at) || /* message_id, the last field */
        !load_number(&at, payload, 0x08, &pushed->ledger_id) || !load_number(&at, payload, 0x10, &pushed->entry_id)) {
        return false;
    }
    if (at < payload && !load_number(&at, payload, 0x18, &partition)) {
        return false;
    }
    return at == payload && pushed->ledger_id <= INT64_MAX && pushed->entry_id <= INT64_MAX;
}

/* ---- MESSAGEs for clients ---- */

/* Common fields of MESSAGE frames; see encode_message_frame. */
typedef struct {
    uint64_t consumer_id;
    uint64_t partition;
    uint64_t redelivery_count;
    uint64_t epoch;
    size_t rest; /* bytes of the last two, if present */
    bool has_epoch;
    bool exposed; /* whether to send the owner's own metadata, too */
} Frames;

/* An entry of a frame: `size` bytes at `stored`, the first `start` of which are the owner's own metadata. */
typedef struct {
    uint64_t ledger_id;
    uint64_t entry_id;
    const uint8_t *stored;
    size_t size;
    size_t start;
} Framed;

typedef struct {
    size_t id;      /* MessageIdData */
    size_t body;    /* CommandMessage */
    size_t command; /* BaseCommand */
    size_t total;
} Sizes;

enum { NO_EPOCH = -1 };

static Frames frames_for(uint64_t consumer_id, int partition, long long epoch, uint64_t redelivery_count, bool exposed) {
    Frames frames = {
        .consumer_id = consumer_id,
        .partition = (uint64_t)(int64_t)(partition < 0 ? -1 : partition),
        .redelivery_count = redelivery_count,
        .epoch = (uint64_t)epoch,
        .has_epoch = epoch > NO_EPOCH,
        .exposed = exposed,
    };
    frames.rest = (redelivery_count ? 1 + varint_size(redelivery_count) : 0) +
                  (frames.has_epoch ? 1 + varint_size(frames.epoch) : 0);
    return frames;
}

static size_t start_of(const Frames *frames, const Framed *framed) { return frames->exposed ? 0 : framed->start; }

static void size_up(const Frames *frames, const Framed *framed, Sizes *sizes) {
    sizes->id = 3 + varint_size(framed->ledger_id) + varint_size(framed->entry_id) + varint_size(frames->partition);
    sizes->body = 2 + varint_size(frames->consumer_id) + varint_size(sizes->id) + sizes->id + frames->rest;
    sizes->command = 3 + varint_size(sizes->body) + sizes->body;
    sizes->total = SIZE + sizes->command + framed->size - start_of(frames, framed);
}

/* Put a frame up to its payload. */
static uint8_t *put_head(uint8_t *at, const Frames *frames, const Framed *framed) {
    Sizes sizes;
    size_up(frames, framed, &sizes);
    at = store_u32(at, (uint32_t)sizes.total);
    at = store_u32(at, (uint32_t)sizes.command);
    *at++ = 0x08; /* type: MESSAGE */
    *at++ = 0x09;
    *at++ = 0x4A; /* message */
    at = store_varint(at, sizes.body);
    *at++ = 0x08; /* consumer_id */
    at = store_varint(at, frames->consumer_id);
    *at++ = 0x12; /* message_id */
    at = store_varint(at, sizes.id);
    *at++ = 0x08; /* ledgerId */
    at = store_varint(at, framed->ledger_id);
    *at++ = 0x10; /* entryId */
    at = store_varint(at, framed->entry_id);
    *at++ = 0x18; /* partition */
    at = store_varint(at, frames->partition);
    if (frames->redelivery_count) {
        *at++ = 0x18;
        at = store_varint(at, frames->redelivery_count);
    }
    if (frames->has_epoch) {
        *at++ = 0x28;
        at = store_varint(at, frames->epoch);
    }
    return at;
}

static uint8_t *put_frame(uint8_t *at, const Frames *frames, const Framed *framed) {
    at = put_head(at, frames, framed);
    size_t start = start_of(frames, framed), size = framed->size - start;
    memcpy(at, framed->stored + start, size);
    return at + size;
}

#endif

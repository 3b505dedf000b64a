/* Numbers on the wire and CRC-32C, for all modules in C. Every function stays below its `end`. */
#ifndef READONLY_WIRE_H
#define READONLY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Numbers of a fixed size, big endian; the caller checks the bounds. */

enum { SIZE = 4 }; /* bytes of a length */

static inline uint32_t load_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t load_u64(const uint8_t *at) { return (uint64_t)load_u32(at) << 32 | load_u32(at + 4); }

static inline uint8_t *store_u32(uint8_t *at, uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        *at++ = (uint8_t)(number >> shift);
    }
    return at;
}

/* Protocol Buffers' varints. */

enum { VARINT_MOST = 10 };

/* Load the number at *at and move *at behind it. False if the number does not end, or has bits beyond the 64th. */
static inline bool load_varint(const uint8_t **at, const uint8_t *end, uint64_t *number) {
    const uint8_t *next = *at;
    uint64_t value = 0;
    for (int shift = 0; next < end && shift < 64; shift += 7) {
        uint8_t byte = *next++;
        if (shift == 63 && byte > 1) {
            return false;
        }
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *at = next;
            *number = value;
            return true;
        }
    }
    return false;
}

static inline size_t varint_size(uint64_t number) {
    size_t size = 1;
    while (number > 0x7F) {
        number >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *store_varint(uint8_t *at, uint64_t number) {
    while (number > 0x7F) {
        *at++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *at++ = (uint8_t)number;
    return at;
}

/* CRC-32C (Castagnoli), reflected: by the processor's instruction if it has one, else eight bytes at a time by tables.

   The instruction takes three cycles, and three of them can be in flight. So long inputs are split into three strips. Their
   checksums are combined through tables: the first ones are extended by as many zero bytes as follow. */

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CRC32C_INSTRUCTION 1
#include <nmmintrin.h>
#endif

enum { CRC32C_SHORT = 336, CRC32C_LONG = 4096 };

static uint32_t crc32c_table[8][256];

static inline uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *at, size_t size) {
    while (size >= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc32c_table[7][low & 0xFF] ^ crc32c_table[6][low >> 8 & 0xFF] ^ crc32c_table[5][low >> 16 & 0xFF] ^
              crc32c_table[4][low >> 24] ^ crc32c_table[3][at[4]] ^ crc32c_table[2][at[5]] ^ crc32c_table[1][at[6]] ^
              crc32c_table[0][at[7]];
        at += 8;
        size -= 8;
    }
    while (size--) {
        crc = crc32c_table[0][(crc ^ *at++) & 0xFF] ^ crc >> 8;
    }
    return crc;
}

#ifdef CRC32C_INSTRUCTION
static bool crc32c_has_instruction;
static uint32_t crc32c_over_short[4][256], crc32c_over_long[4][256];

static inline uint64_t crc32c_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint32_t crc32c_over(uint32_t zeros[4][256], uint32_t crc) {
    return zeros[0][crc & 0xFF] ^ zeros[1][crc >> 8 & 0xFF] ^ zeros[2][crc >> 16 & 0xFF] ^ zeros[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static inline uint32_t crc32c_strips(
    uint32_t crc, const uint8_t **at, size_t *size, size_t strip, uint32_t zeros[4][256]) {
    while (*size >= 3 * strip) {
        const uint8_t *next = *at;
        uint64_t first = crc, second = 0, third = 0;
        for (const uint8_t *end = next + strip; next < end; next += 8) {
            first = _mm_crc32_u64(first, crc32c_word(next));
            second = _mm_crc32_u64(second, crc32c_word(next + strip));
            third = _mm_crc32_u64(third, crc32c_word(next + 2 * strip));
        }
        crc = crc32c_over(zeros, (uint32_t)first) ^ (uint32_t)second;
        crc = crc32c_over(zeros, crc) ^ (uint32_t)third;
        *at += 3 * strip;
        *size -= 3 * strip;
    }
    return crc;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *at, size_t size) {
    crc = crc32c_strips(crc, &at, &size, CRC32C_LONG, crc32c_over_long);
    crc = crc32c_strips(crc, &at, &size, CRC32C_SHORT, crc32c_over_short);
    uint64_t sum = crc;
    for (; size >= 8; at += 8, size -= 8) {
        sum = _mm_crc32_u64(sum, crc32c_word(at));
    }
    for (; size; at++, size--) {
        sum = _mm_crc32_u8((uint32_t)sum, *at);
    }
    return (uint32_t)sum;
}

/* Tabulate how `count` zero bytes change each byte of a checksum. This is linear, so single bits determine all values. */
static void crc32c_prepare_zeros(uint32_t zeros[4][256], size_t count) {
    static const uint8_t nothing[CRC32C_LONG];
    for (int byte = 0; byte < 4; byte++) {
        for (uint32_t value = 1; value < 256; value++) {
            uint32_t rest = value & (value - 1), bit = value ^ rest;
            zeros[byte][value] = rest ? zeros[byte][rest] ^ zeros[byte][bit]
                                      : crc32c_by_tables(bit << 8 * byte, nothing, count);
        }
    }
}
#endif

/* Fill the tables. Call this once, before all other functions of CRC-32C, with the GIL held. */
static inline void crc32c_prepare(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        }
        crc32c_table[0][value] = crc;
    }
    for (int table = 1; table < 8; table++) {
        for (int value = 0; value < 256; value++) {
            uint32_t before = crc32c_table[table - 1][value];
            crc32c_table[table][value] = crc32c_table[0][before & 0xFF] ^ before >> 8;
        }
    }
#ifdef CRC32C_INSTRUCTION
    __builtin_cpu_init();
    crc32c_has_instruction = __builtin_cpu_supports("sse4.2");
    if (crc32c_has_instruction) {
        crc32c_prepare_zeros(crc32c_over_short, CRC32C_SHORT);
        crc32c_prepare_zeros(crc32c_over_long, CRC32C_LONG);
    }
#endif
}

/* Extend the checksum `crc` of earlier bytes (0 for none) by these bytes. */
static inline uint32_t crc32c(uint32_t crc, const uint8_t *at, size_t size) {
#ifdef CRC32C_INSTRUCTION
    if (crc32c_has_instruction) {
        return ~crc32c_by_instruction(~crc, at, size);
    }
#endif
    return ~crc32c_by_tables(~crc, at, size);
}

#endif

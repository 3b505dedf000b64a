/* CRC-32C (Castagnoli): the digest of entries and the checksum of messages. For the modules in C; Python has google_crc32c.
 *
 * Where the processor has the instruction (SSE 4.2), three stretches are computed side by side and put together, because one
 * alone waits for the instruction's latency; elsewhere eight bytes at a time by tables.
 */
#ifndef READONLY_CRC32C_H
#define READONLY_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define CRC32C_BY_INSTRUCTION 1
#include <nmmintrin.h>
#endif

#define CRC32C_POLYNOMIAL 0x82f63b78u /* reflected */
#define CRC32C_STRETCH 512            /* bytes of each of the three */

static uint32_t crc32c_bytes[8][256];  /* [n][b]: byte b with n bytes of zeros behind it */
static uint32_t crc32c_beyond[4][256]; /* [n][b]: byte n of a sum with CRC32C_STRETCH bytes of zeros behind it */
static int crc32c_has_instruction;

/* Fill the tables: once, before the first sum. */
static void crc32c_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = (sum >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (sum & 1u)));
        crc32c_bytes[0][byte] = sum;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t sum = crc32c_bytes[zeros - 1][byte];
            crc32c_bytes[zeros][byte] = (sum >> 8) ^ crc32c_bytes[0][sum & 0xff];
        }
    for (int place = 0; place < 4; place++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t sum = byte << (8 * place);
            for (int zeros = 0; zeros < CRC32C_STRETCH; zeros++)
                sum = (sum >> 8) ^ crc32c_bytes[0][sum & 0xff];
            crc32c_beyond[place][byte] = sum;
        }
#ifdef CRC32C_BY_INSTRUCTION
    crc32c_has_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

static uint32_t crc32c_by_tables(uint32_t sum, const unsigned char *data, size_t size)
{
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low = sum ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        sum = crc32c_bytes[7][low & 0xff] ^ crc32c_bytes[6][low >> 8 & 0xff] ^ crc32c_bytes[5][low >> 16 & 0xff] ^
              crc32c_bytes[4][low >> 24] ^ crc32c_bytes[3][data[4]] ^ crc32c_bytes[2][data[5]] ^
              crc32c_bytes[1][data[6]] ^ crc32c_bytes[0][data[7]];
    }
    for (; size; data++, size--)
        sum = (sum >> 8) ^ crc32c_bytes[0][(sum ^ *data) & 0xff];
    return sum;
}

#ifdef CRC32C_BY_INSTRUCTION
static inline uint64_t crc32c_word(const unsigned char *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

static inline uint32_t crc32c_skip(uint32_t sum)
{
    return crc32c_beyond[0][sum & 0xff] ^ crc32c_beyond[1][sum >> 8 & 0xff] ^ crc32c_beyond[2][sum >> 16 & 0xff] ^
           crc32c_beyond[3][sum >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(uint32_t sum, const unsigned char *data, size_t size)
{
    uint64_t first = sum;
    for (; size >= 3 * CRC32C_STRETCH; data += 3 * CRC32C_STRETCH, size -= 3 * CRC32C_STRETCH) {
        uint64_t second = 0, third = 0;
        for (size_t at = 0; at < CRC32C_STRETCH; at += 8) {
            first = _mm_crc32_u64(first, crc32c_word(data + at));
            second = _mm_crc32_u64(second, crc32c_word(data + CRC32C_STRETCH + at));
            third = _mm_crc32_u64(third, crc32c_word(data + 2 * CRC32C_STRETCH + at));
        }
        first = crc32c_skip(crc32c_skip((uint32_t)first) ^ (uint32_t)second) ^ third;
    }
    for (; size >= 8; data += 8, size -= 8)
        first = _mm_crc32_u64(first, crc32c_word(data));
    for (; size; data++, size--)
        first = _mm_crc32_u8((uint32_t)first, *data);
    return (uint32_t)first;
}
#endif

/* The checksum of what `sum` is the checksum of, and of `data` behind it; 0 is that of nothing. */
static inline uint32_t crc32c(uint32_t sum, const void *data, size_t size)
{
#ifdef CRC32C_BY_INSTRUCTION
    if (crc32c_has_instruction)
        return ~crc32c_by_instruction(~sum, data, size);
#endif
    return ~crc32c_by_tables(~sum, data, size);
}

#endif

/* Columns of one record batch that values are appended to. Define BLOCK_NAME before including this; see _buffers.h. */
#ifndef READONLY_SPARK_AVRO_COLUMNS_H
#define READONLY_SPARK_AVRO_COLUMNS_H

#include "_buffers.h"

enum { DECIMAL_BYTES = 16 };

/* Kinds of columns. */
enum { BOOLS, INT32S, INT64S, FLOATS, DOUBLES, TEXTS, DECIMALS, STRUCTS, LISTS, COLUMN_KINDS };

typedef struct {
    int kind;
    int end;          /* index after the columns below this one */
    Buffer data;      /* one byte for each of BOOLS */
    Buffer offsets;   /* of TEXTS and LISTS */
    Buffer valid;     /* a byte for each row; empty before the first null */
    size_t rows, nulls;
} Column;

static bool mark(Column *column, bool present) {
    if (!present && !column->nulls++) {
        if (!make_room(&column->valid, column->rows + 1)) {
            return false;
        }
        memset(column->valid.at, 1, column->rows);
        column->valid.size = column->rows;
    }
    if (column->nulls) {
        if (!make_room(&column->valid, 1)) {
            return false;
        }
        column->valid.at[column->valid.size++] = present;
    }
    column->rows++;
    return true;
}

static size_t width(int kind) {
    switch (kind) {
    case BOOLS: return 1;
    case INT32S: case FLOATS: return 4;
    case INT64S: case DOUBLES: return 8;
    case DECIMALS: return DECIMAL_BYTES;
    default: return 0;
    }
}

static bool put(Column *column, const void *value, size_t size) {
    if (size != width(column->kind)) {
        PyErr_SetString(PyExc_SystemError, "a value for a column of another kind");
        return false;
    }
    if (!make_room(&column->data, size)) {
        return false;
    }
    memcpy(column->data.at + column->data.size, value, size);
    column->data.size += size;
    return mark(column, true);
}

/* Append the end of a text or of a list. */
static bool put_end(Column *column, size_t end) {
    if (end > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a column of one record batch exceeds 2 GiB; set a smaller batchBytes");
        return false;
    }
    if (!make_room(&column->offsets, 2 * sizeof(int32_t))) {
        return false;
    }
    if (!column->offsets.size) {
        memset(column->offsets.at, 0, sizeof(int32_t));
        column->offsets.size = sizeof(int32_t);
    }
    int32_t offset = (int32_t)end;
    memcpy(column->offsets.at + column->offsets.size, &offset, sizeof offset);
    column->offsets.size += sizeof offset;
    return true;
}

static bool put_text(Column *column, const uint8_t *text, size_t size) {
    if (column->kind != TEXTS) {
        PyErr_SetString(PyExc_SystemError, "a text for a column of another kind");
        return false;
    }
    if (size > INT32_MAX || !put_end(column, column->data.size + size) || !make_room(&column->data, size + 1)) {
        return false;
    }
    if (size) {
        memcpy(column->data.at + column->data.size, text, size);
    }
    column->data.size += size;
    return mark(column, true);
}

#endif

/* Growing columns of byte strings and numbers. */
#ifndef READONLY_SPARK_COLUMNS_H
#define READONLY_SPARK_COLUMNS_H

#define BLOCK_NAME "readonly_spark.rows._decode.Block"
#include "_buffers.h"

/* Columns of byte strings and of numbers. Rows without a value cost nothing until a later row has one: `filled` rows are written. */

typedef struct {
    Buffer data, offsets, valid;
    size_t filled, present;
} Texts;

typedef struct {
    Buffer data;
    size_t filled;
} Numbers;

typedef struct {
    const uint8_t *at; /* NULL for none */
    size_t size;
} Text;

static bool texts_fill(Texts *texts, size_t rows) {
    if (!make_room(&texts->offsets, (rows + 1 - texts->filled + 1) * sizeof(int32_t)) ||
        !make_room(&texts->valid, rows - texts->filled)) {
        return false;
    }
    int32_t *offsets = (int32_t *)texts->offsets.at, end = (int32_t)texts->data.size;
    offsets[0] = 0;
    for (size_t row = texts->filled; row < rows; row++) {
        offsets[row + 1] = end;
        texts->valid.at[row] = 0;
    }
    texts->filled = rows;
    texts->offsets.size = (rows + 1) * sizeof(int32_t);
    texts->valid.size = rows;
    return true;
}

/* Make room for a text in the row after `rows`. On failure set an error and return NULL. */
static uint8_t *texts_room(Texts *texts, size_t rows, size_t size) {
    if (size > INT32_MAX - texts->data.size) {
        PyErr_SetString(PyExc_OverflowError, "a column of one record batch exceeds 2 GiB; set a smaller batchBytes");
        return NULL;
    }
    if (texts->filled < rows && !texts_fill(texts, rows)) {
        return NULL;
    }
    if (!make_room(&texts->data, size ? size : 1) || !make_room(&texts->offsets, 2 * sizeof(int32_t)) ||
        !make_room(&texts->valid, 1)) {
        return NULL;
    }
    int32_t *offsets = (int32_t *)texts->offsets.at;
    offsets[0] = 0;
    uint8_t *at = texts->data.at + texts->data.size;
    texts->data.size += size;
    offsets[rows + 1] = (int32_t)texts->data.size;
    texts->valid.at[rows] = 1;
    texts->filled = rows + 1;
    texts->present++;
    texts->offsets.size = (rows + 2) * sizeof(int32_t);
    texts->valid.size = rows + 1;
    return at;
}

static bool texts_append(Texts *texts, size_t rows, Text text) {
    uint8_t *at = texts_room(texts, rows, text.size);
    if (at && text.size) {
        memcpy(at, text.at, text.size);
    }
    return at != NULL;
}

/* Cut a column back to an earlier state. */
static void texts_cut(Texts *texts, const Texts *before) {
    texts->data.size = before->data.size;
    texts->offsets.size = before->offsets.size;
    texts->valid.size = before->valid.size;
    texts->filled = before->filled;
    texts->present = before->present;
}

static void texts_free(Texts *texts) {
    give_back(&texts->data);
    give_back(&texts->offsets);
    give_back(&texts->valid);
    texts->filled = texts->present = 0;
}

static bool numbers_append(Numbers *numbers, size_t rows, int64_t number) {
    if (!make_room(&numbers->data, (rows + 1 - numbers->filled) * sizeof number)) {
        return false;
    }
    int64_t *all = (int64_t *)numbers->data.at;
    for (; numbers->filled < rows; numbers->filled++) {
        all[numbers->filled] = 0;
    }
    all[numbers->filled++] = number;
    numbers->data.size = numbers->filled * sizeof number;
    return true;
}

static void numbers_cut(Numbers *numbers, const Numbers *before) {
    numbers->data.size = before->data.size;
    numbers->filled = before->filled;
}

static void numbers_free(Numbers *numbers) {
    give_back(&numbers->data);
    numbers->filled = 0;
}

/* None if no row has a text; else the number of nulls, the bitmap (None for no nulls), offsets and data. */
static PyObject *take_texts(Texts *texts, size_t rows) {
    PyObject *valid = NULL, *offsets = NULL, *data = NULL, *found = NULL;
    size_t nulls = rows - texts->present;
    if (!texts->present) {
        found = Py_NewRef(Py_None);
    } else if (texts->filled == rows || texts_fill(texts, rows)) {
        valid = nulls ? bitmap(texts->valid.at, rows) : Py_NewRef(Py_None);
        offsets = valid ? as_block(&texts->offsets) : NULL;
        data = offsets ? as_block(&texts->data) : NULL;
        found = data ? Py_BuildValue("nOOO", (Py_ssize_t)nulls, valid, offsets, data) : NULL;
    }
    Py_XDECREF(valid);
    Py_XDECREF(offsets);
    Py_XDECREF(data);
    texts_free(texts);
    return found;
}

/* Times in ms as microseconds: nulls, bitmap and data; None if no row has a time. A time that a timestamp cannot hold is null. */
static PyObject *take_times(Numbers *times, size_t rows) {
    if (!times->filled) {
        return Py_NewRef(Py_None);
    }
    size_t written = times->filled;
    Buffer valid = {0};
    PyObject *bits = NULL, *data = NULL, *found = NULL;
    if ((written == rows || numbers_append(times, rows - 1, 0)) && make_room(&valid, rows)) {
        int64_t *all = (int64_t *)times->data.at;
        size_t nulls = 0;
        for (size_t row = 0; row < rows; row++) {
            valid.at[row] = all[row] != 0 && all[row] <= INT64_MAX / 1000 && all[row] >= INT64_MIN / 1000;
            nulls += !valid.at[row];
            all[row] = valid.at[row] ? all[row] * 1000 : 0;
        }
        bits = bitmap(valid.at, rows);
        data = bits ? as_block(&times->data) : NULL;
        found = data ? Py_BuildValue("nOO", (Py_ssize_t)nulls, bits, data) : NULL;
    }
    Py_XDECREF(bits);
    Py_XDECREF(data);
    give_back(&valid);
    numbers_free(times);
    return found;
}

#endif

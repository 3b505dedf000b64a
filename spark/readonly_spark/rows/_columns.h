/* Growing columns of byte strings and numbers, in memory that is handed to Arrow without a copy. */
#ifndef READONLY_SPARK_COLUMNS_H
#define READONLY_SPARK_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Memory of columns. Arrow reads it without a copy and returns it when it is done. Page faults of fresh memory for each record
   batch would cost more than decoding does. */

enum { KEPT_PIECES = 16, LEAST_ROOM = 4096 };
static const size_t KEPT_MOST = (size_t)32 << 20;

typedef struct {
    uint8_t *at;
    size_t size, room;
    size_t last; /* its size when it was handed over; the next allocation has this size */
} Buffer;

static Buffer kept[KEPT_PIECES];
static int kept_count;
static size_t kept_bytes;

static void give_back(Buffer *buffer) {
    if (buffer->at && kept_count < KEPT_PIECES && kept_bytes + buffer->room <= KEPT_MOST) {
        kept_bytes += buffer->room;
        kept[kept_count++] = *buffer;
    } else {
        PyMem_RawFree(buffer->at);
    }
    *buffer = (Buffer){.last = buffer->size};
}

/* Make room for this many more bytes. Without memory, set an error and return false. */
static bool make_room(Buffer *buffer, size_t more) {
    if (more <= buffer->room - buffer->size) {
        return true;
    }
    size_t wanted = buffer->size + more;
    if (!buffer->at) {
        wanted = wanted > buffer->last ? wanted : buffer->last + buffer->last / 8;
        int best = -1;
        for (int index = 0; index < kept_count; index++) {
            if (kept[index].room >= wanted && (best < 0 || kept[index].room < kept[best].room)) {
                best = index;
            }
        }
        if (best >= 0) {
            buffer->at = kept[best].at;
            buffer->room = kept[best].room;
            kept_bytes -= buffer->room;
            kept[best] = kept[--kept_count];
            return true;
        }
    }
    size_t room = buffer->room * 2 > wanted ? buffer->room * 2 : wanted;
    room = room > LEAST_ROOM ? room : LEAST_ROOM;
    uint8_t *at = PyMem_RawRealloc(buffer->at, room);
    if (!at) {
        PyErr_NoMemory();
        return false;
    }
    buffer->at = at;
    buffer->room = room;
    return true;
}

/* A block of such memory as an object that Arrow can read. */

typedef struct {
    PyObject_HEAD
    Buffer buffer;
} Block;

static void block_dealloc(Block *self) {
    PyTypeObject *type = Py_TYPE(self);
    give_back(&self->buffer);
    type->tp_free(self);
    Py_DECREF(type);
}

static int block_get_buffer(Block *self, Py_buffer *view, int flags) {
    return PyBuffer_FillInfo(view, (PyObject *)self, self->buffer.at, (Py_ssize_t)self->buffer.size, 1, flags);
}

static PyType_Slot block_slots[] = {
    {Py_tp_doc, "Memory of a column, readable through the buffer protocol."},
    {Py_tp_dealloc, block_dealloc},
    {Py_bf_getbuffer, block_get_buffer},
    {0, NULL},
};

static PyType_Spec block_spec = {
    .name = "readonly_spark.rows._decode.Block",
    .basicsize = sizeof(Block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = block_slots,
};

static PyTypeObject *block_type;

/* Move the content of a buffer to an object. */
static PyObject *as_block(Buffer *buffer) {
    if (!buffer->at && !make_room(buffer, 1)) {
        return NULL; /* an empty block needs an address too: Arrow asks for one */
    }
    Block *block = PyObject_New(Block, block_type);
    if (!block) {
        return NULL;
    }
    block->buffer = *buffer;
    *buffer = (Buffer){.last = buffer->size};
    return (PyObject *)block;
}

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

/* Pack bytes that are 0 or 1 into an Arrow bitmap. */
static PyObject *bitmap(const uint8_t *bytes, size_t count) {
    Buffer bits = {0};
    if (!make_room(&bits, count / 8 + 1)) {
        return NULL;
    }
    bits.size = (count + 7) / 8;
    memset(bits.at, 0, bits.size);
    for (size_t index = 0; index < count; index++) {
        bits.at[index / 8] |= (uint8_t)(bytes[index] << index % 8);
    }
    PyObject *block = as_block(&bits);
    give_back(&bits);
    return block;
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

/* Growing memory that is handed to Arrow without a copy. Define BLOCK_NAME, the full name of the type, before including this. */
#ifndef READONLY_SPARK_BUFFERS_H
#define READONLY_SPARK_BUFFERS_H

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
    *buffer = (Buffer){.last = buffer->at ? buffer->size : buffer->last}; /* without memory it was handed over before */
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
    .name = BLOCK_NAME,
    .basicsize = sizeof(Block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = block_slots,
};

static PyTypeObject *block_type;

/* Make the type of blocks; call this once before all else. On failure set an error and return false. */
static bool blocks_prepare(void) {
    if (!block_type) {
        block_type = (PyTypeObject *)PyType_FromSpec(&block_spec);
    }
    return block_type != NULL;
}

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

#endif

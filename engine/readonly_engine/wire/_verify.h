/* Verify and decode the entries of a bookie's reply, as wire/bookie_v2.py and wire/entry.py do in Python. */
#ifndef READONLY_ENGINE_VERIFY_H
#define READONLY_ENGINE_VERIFY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "_wire.h"

enum {
    ENTRY_HEADER = 32, /* ledger id, entry id, LAC, length */
    DIGEST = 4,        /* CRC-32C; other digests are left to Python */
    VIEWED = 4096, /* a view of fewer bytes costs more than a copy */
    LARGE = 16 << 10,
    POPULATED_MOST = 8 << 20,
};

/* Return whether these bytes are this entry, undamaged. */
static bool sound(const uint8_t *body, size_t size, uint64_t ledger_id, uint64_t entry_id) {
    if (size < ENTRY_HEADER + DIGEST) {
        return false;
    }
    uint32_t sum = crc32c(0, body, ENTRY_HEADER);
    sum = crc32c(sum, body + ENTRY_HEADER + DIGEST, size - ENTRY_HEADER - DIGEST);
    return sum == load_u32(body + ENTRY_HEADER) && load_u64(body) == ledger_id && load_u64(body + 8) == entry_id;
}

/* Let the kernel provide the pages that the heap has just grown by, all in one call: page by page, as they are written, they cost
   half as much again (measured). A larger growth is not for payloads. Call this with the GIL held. */
static void populate_heap(void) {
#ifdef MADV_POPULATE_WRITE
    static char *populated;
    char *end = sbrk(0), *start = populated;
    if (end != start) {
        populated = end;
        if (start != NULL && end > start && end - start <= POPULATED_MOST) {
            (void)madvise(start, (size_t)(end - start), MADV_POPULATE_WRITE);
        }
    }
#endif
}

static PyObject *payload_of(const uint8_t *body, size_t size) {
    return PyBytes_FromStringAndSize((const char *)body + ENTRY_HEADER + DIGEST, (Py_ssize_t)(size - ENTRY_HEADER - DIGEST));
}

static PyObject *part_of(PyObject *view, size_t start, size_t end) {
    PyObject *from = PyLong_FromSize_t(start), *to = PyLong_FromSize_t(end);
    PyObject *slice = from && to ? PySlice_New(from, to, NULL) : NULL;
    PyObject *part = slice ? PyObject_GetItem(view, slice) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(slice);
    return part;
}

/* Return an entry, or NULL if `payload` is NULL; steals the reference to `payload`. */
static PyObject *new_entry(PyTypeObject *type, PyObject *ledger_id, const uint8_t *body, PyObject *payload) {
    PyObject *entry = payload ? type->tp_alloc(type, 5) : NULL;
    if (entry == NULL) {
        Py_XDECREF(payload);
        return NULL;
    }
    PyObject *fields[5] = {
        Py_NewRef(ledger_id),
        PyLong_FromLongLong((int64_t)load_u64(body + 8)),
        PyLong_FromLongLong((int64_t)load_u64(body + 16)),
        PyLong_FromLongLong((int64_t)load_u64(body + 24)),
        payload,
    };
    bool whole = true;
    for (int i = 0; i < 5; i++) {
        whole = whole && fields[i] != NULL;
        PyTuple_SET_ITEM(entry, i, fields[i]);
    }
    if (!whole) {
        Py_DECREF(entry);
        return NULL;
    }
    return entry;
}

/* Return the entries from `start` to `end` of a frame; None if one of them is damaged. `view` is a memoryview of the frame, for
   large payloads without a copy; or None. */
static PyObject *entries_of(PyTypeObject *type, const uint8_t *frame, size_t start, size_t end, int64_t ledger_id,
                            int64_t first, PyObject *view) {
    PyObject *ledger = PyLong_FromLongLong(ledger_id);
    PyObject *entries = PyList_New(0);
    bool whole = true;
    for (uint64_t entry_id = (uint64_t)first; ledger && entries && start < end; entry_id++) {
        size_t size = end - start < SIZE ? SIZE_MAX : load_u32(frame + start);
        start += SIZE;
        if (size == SIZE_MAX || size > end - start || !sound(frame + start, size, (uint64_t)ledger_id, entry_id)) {
            whole = false;
            break;
        }
        const uint8_t *body = frame + start;
        start += size;
        bool viewed = view != Py_None && size >= VIEWED;
        size_t from = start - size + ENTRY_HEADER + DIGEST;
        PyObject *entry = new_entry(type, ledger, body, viewed ? part_of(view, from, start) : payload_of(body, size));
        if (entry == NULL || PyList_Append(entries, entry) < 0) {
            Py_CLEAR(entries);
        }
        Py_XDECREF(entry);
        if (!viewed && size >= LARGE) {
            populate_heap();
        }
    }
    Py_XDECREF(ledger);
    if (ledger == NULL || entries == NULL) {
        Py_XDECREF(entries);
        return NULL;
    }
    if (!whole) {
        Py_DECREF(entries);
        Py_RETURN_NONE;
    }
    return entries;
}

#endif

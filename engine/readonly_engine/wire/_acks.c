/* Decode the most frequent ACK commands, as wire/acks.py does in Python. The result is None for other ACKs, other commands and
   damaged frames. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_tuples.h"
#include "_wire.h"

typedef struct {
    PyTypeObject *ack_type;
} State;

enum {
    LENGTH = 4,
    CONSUMER_ID = 0x08,
    LEDGER_ID = 0x08,
    ENTRY_ID = 0x10,
    MESSAGE_ID = 0x1A,
    MOST_BYTES = 9, /* of a number; one of ten bytes is negative, or not minimal */
};

static const uint8_t ACK[] = {0x08, 0x0A, 0x52};
static const uint8_t INDIVIDUAL[] = {0x10, 0x00};

static bool skip(const uint8_t **at, const uint8_t *end, const uint8_t *bytes, size_t count) {
    if ((size_t)(end - *at) < count || memcmp(*at, bytes, count) != 0) {
        return false;
    }
    *at += count;
    return true;
}

static bool load_number(const uint8_t **at, const uint8_t *end, uint64_t *number) {
    const uint8_t *begin = *at;
    return load_varint(at, end, number) && *at - begin <= MOST_BYTES;
}

/* Load a tag of one byte, and its number. */
static bool load_tagged(const uint8_t **at, const uint8_t *end, uint8_t tag, uint64_t *number) {
    return skip(at, end, &tag, 1) && load_number(at, end, number);
}

/* Load the fields before the ids. */
static bool load_head(const uint8_t **at, const uint8_t *end, uint64_t *consumer_id) {
    uint64_t size;
    if (end - *at < LENGTH || load_u32(*at) != (uint64_t)(end - *at - LENGTH)) {
        return false;
    }
    *at += LENGTH;
    return skip(at, end, ACK, sizeof ACK) && load_number(at, end, &size) && size == (uint64_t)(end - *at) &&
           load_tagged(at, end, CONSUMER_ID, consumer_id) && skip(at, end, INDIVIDUAL, sizeof INDIVIDUAL);
}

static bool load_id(const uint8_t **at, const uint8_t *end, uint64_t *ledger_id, uint64_t *entry_id) {
    if (end - *at < 2 || **at != MESSAGE_ID || (*at)[1] > end - *at - 2) {
        return false;
    }
    const uint8_t *stop = *at + 2 + (*at)[1];
    *at += 2;
    return load_tagged(at, stop, LEDGER_ID, ledger_id) && load_tagged(at, stop, ENTRY_ID, entry_id) && *at == stop;
}

/* Return a tuple of two; steals the reference to the second. */
static PyObject *pair(PyObject *first, PyObject *second) {
    PyObject *both = second == NULL ? NULL : PyTuple_New(2);
    if (both == NULL) {
        Py_XDECREF(second);
        return NULL;
    }
    PyTuple_SET_ITEM(both, 0, Py_NewRef(first));
    PyTuple_SET_ITEM(both, 1, second);
    return both;
}

/* Return the ids from `at` on; NULL without an error if they are not plain. */
static PyObject *entries_of(const uint8_t *at, const uint8_t *end) {
    PyObject *entries = PyList_New(0), *ledger = NULL;
    uint64_t ledger_id, entry_id, before = 0; /* usually the same ledger as that of the entry before */
    while (entries != NULL && at < end) {
        if (!load_id(&at, end, &ledger_id, &entry_id)) {
            Py_CLEAR(entries);
            break;
        }
        if (ledger == NULL || ledger_id != before) {
            Py_XDECREF(ledger);
            ledger = PyLong_FromUnsignedLongLong(ledger_id);
            before = ledger_id;
        }
        PyObject *entry = ledger == NULL ? NULL : pair(ledger, PyLong_FromUnsignedLongLong(entry_id));
        if (entry == NULL || PyList_Append(entries, entry) < 0) {
            Py_CLEAR(entries);
        }
        Py_XDECREF(entry);
    }
    Py_XDECREF(ledger);
    return entries;
}

static PyObject *decode_plain_ack(PyObject *self, PyObject *frame) {
    if (!PyBytes_Check(frame)) {
        PyErr_SetString(PyExc_TypeError, "frame: must be bytes");
        return NULL;
    }
    const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(frame), *end = at + PyBytes_GET_SIZE(frame);
    uint64_t consumer_id;
    if (!load_head(&at, end, &consumer_id) || at == end) {
        Py_RETURN_NONE;
    }
    PyObject *entries = entries_of(at, end);
    if (entries == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    PyTypeObject *type = ((State *)PyModule_GetState(self))->ack_type;
    PyObject *ack = type->tp_alloc(type, 3);
    if (ack == NULL) {
        Py_DECREF(entries);
        return NULL;
    }
    PyTuple_SET_ITEM(ack, 0, PyLong_FromUnsignedLongLong(consumer_id));
    PyTuple_SET_ITEM(ack, 1, entries);
    PyTuple_SET_ITEM(ack, 2, PyBytes_FromStringAndSize((const char *)at, end - at));
    if (PyTuple_GET_ITEM(ack, 0) == NULL || PyTuple_GET_ITEM(ack, 2) == NULL) {
        Py_CLEAR(ack);
    }
    return ack;
}

/* ---- The module ---- */

static int set_up(PyObject *self) {
    State *state = PyModule_GetState(self);
    state->ack_type = tuple_type("readonly_engine.wire.acks", "PlainAck");
    return state->ack_type == NULL ? -1 : 0;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((State *)PyModule_GetState(self))->ack_type);
    return 0;
}

static int clear(PyObject *self) {
    Py_CLEAR(((State *)PyModule_GetState(self))->ack_type);
    return 0;
}

static PyMethodDef functions[] = {
    {"decode_plain_ack", decode_plain_ack, METH_O, "The ack in a frame; None if it is not plain."},
    {0},
};

static struct PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_acks",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__acks(void) { return PyModuleDef_Init(&module); }

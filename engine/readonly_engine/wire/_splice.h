/* Splice: the shortcut of one topic from its owner's MESSAGEs to one client's consumer; see wire/splice.py. */
#ifndef READONLY_ENGINE_SPLICE_H
#define READONLY_ENGINE_SPLICE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>

#include "_message.h"
#include "_stored.h"

typedef struct {
    PyObject_HEAD
    PyObject *fallback; /* gets the entries of MESSAGEs that must not take the shortcut */
    PyObject *writer;   /* the client's connection */
    PyObject *ledger;   /* its `last_readable` follows */
    PyObject *last;     /* the last delivered entry, as stored; NULL since the last `take` */
    Frames frames;
    long long ledger_id;
    long long entry_id;
    long long messages_left;
    long long size_left;
    long long entries; /* delivered since the last `take`: entries, their messages, and bytes of both forms */
    long long messages;
    long long stored_bytes;
    long long frame_bytes;
    char running;
} Splice;

static PyObject *splice_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *fallback;
    if (!PyArg_ParseTuple(args, "O:Splice", &fallback)) {
        return NULL;
    }
    Splice *splice = (Splice *)type->tp_alloc(type, 0);
    if (splice == NULL) {
        return NULL;
    }
    splice->fallback = Py_NewRef(fallback);
    return (PyObject *)splice;
}

static int splice_traverse(PyObject *self, visitproc visit, void *arg) {
    Splice *splice = (Splice *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(splice->fallback);
    Py_VISIT(splice->writer);
    Py_VISIT(splice->ledger);
    return 0;
}

static int splice_clear(PyObject *self) {
    Splice *splice = (Splice *)self;
    Py_CLEAR(splice->fallback);
    Py_CLEAR(splice->writer);
    Py_CLEAR(splice->ledger);
    Py_CLEAR(splice->last);
    return 0;
}

static void splice_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)splice_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *splice_start(PyObject *self, PyObject *args) {
    Splice *splice = (Splice *)self;
    PyObject *writer, *ledger, *consumer;
    long long ledger_id, entry_id, epoch, messages_left, size_left;
    int partition, exposed;
    if (!PyArg_ParseTuple(args, "OOLLO!iLpLL:start", &writer, &ledger, &ledger_id, &entry_id, &PyLong_Type, &consumer,
                          &partition, &epoch, &exposed, &messages_left, &size_left)) {
        return NULL;
    }
    splice->frames = frames_for(PyLong_AsUnsignedLongLongMask(consumer), partition, epoch, 0, exposed);
    splice->ledger_id = ledger_id;
    splice->entry_id = entry_id;
    splice->messages_left = messages_left;
    splice->size_left = size_left;
    Py_XSETREF(splice->writer, Py_NewRef(writer));
    Py_XSETREF(splice->ledger, Py_NewRef(ledger));
    splice->running = 1;
    Py_RETURN_NONE;
}

static PyObject *splice_stop(PyObject *self, PyObject *Py_UNUSED(none)) {
    Splice *splice = (Splice *)self;
    splice->running = 0;
    Py_CLEAR(splice->writer);
    Py_CLEAR(splice->ledger);
    Py_RETURN_NONE;
}

static PyObject *splice_take(PyObject *self, PyObject *Py_UNUSED(none)) {
    Splice *splice = (Splice *)self;
    if (splice->last == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *taken = Py_BuildValue("(OLLLL)", splice->last, splice->entries, splice->messages, splice->stored_bytes,
                                    splice->frame_bytes);
    if (taken != NULL) {
        Py_CLEAR(splice->last);
        splice->entries = splice->messages = splice->stored_bytes = splice->frame_bytes = 0;
    }
    return taken;
}

/* Return whether the entry may take the shortcut: the next one, plain, and within the limits. */
static bool fits(const Splice *splice, const Pushed *pushed, Found *found) {
    if (!splice->running || (long long)pushed->ledger_id != splice->ledger_id ||
        (long long)pushed->entry_id - 1 != splice->entry_id) {
        return false;
    }
    size_t size = (size_t)(pushed->end - pushed->payload);
    const uint32_t special = 1u << MARKER_TYPE | 1u << TXNID_LEAST_BITS | 1u << TXNID_MOST_BITS;
    return (long long)size <= splice->size_left && parse_stored(pushed->payload, size, found) &&
           !(found->seen & special) && found->messages > 0 && found->messages <= splice->messages_left;
}

/* Append bytes to the list of a writer. */
static int add_write(PyObject *writes, PyObject *writer, PyObject *frame) {
    PyObject *pieces = PyDict_GetItemWithError(writes, writer);
    if (pieces != NULL) {
        return PyList_Append(pieces, frame);
    }
    if (PyErr_Occurred() || (pieces = PyList_New(1)) == NULL) {
        return -1;
    }
    PyList_SET_ITEM(pieces, 0, Py_NewRef(frame));
    int status = PyDict_SetItem(writes, writer, pieces);
    Py_DECREF(pieces);
    return status;
}

/* Deliver an entry that fits: count it, and add its frame to the writes. These may need a new object, and so collect garbage, whose
   finalizers may stop the splice. */
static int deliver(Splice *splice, const Pushed *pushed, const Found *found, PyObject *writes, PyObject *last_readable) {
    Framed framed = {pushed->ledger_id, pushed->entry_id, pushed->payload, (size_t)(pushed->end - pushed->payload), found->start};
    Sizes sizes;
    size_up(&splice->frames, &framed, &sizes);
    PyObject *stored = PyBytes_FromStringAndSize((const char *)framed.stored, (Py_ssize_t)framed.size);
    PyObject *frame = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(SIZE + sizes.total));
    PyObject *entry_id = PyLong_FromUnsignedLongLong(pushed->entry_id);
    PyObject *writer = Py_NewRef(splice->writer);
    int status = -1;
    if (stored != NULL && frame != NULL && entry_id != NULL) {
        put_frame((uint8_t *)PyBytes_AS_STRING(frame), &splice->frames, &framed);
        Py_XSETREF(splice->last, Py_NewRef(stored));
        splice->entry_id++;
        splice->messages_left -= found->messages;
        splice->size_left -= (long long)framed.size;
        splice->entries++;
        splice->messages += found->messages;
        splice->stored_bytes += (long long)framed.size;
        splice->frame_bytes += PyBytes_GET_SIZE(frame);
        status = PyObject_SetAttr(splice->ledger, last_readable, entry_id) < 0 ? -1 : add_write(writes, writer, frame);
    }
    Py_XDECREF(stored);
    Py_XDECREF(frame);
    Py_XDECREF(entry_id);
    Py_DECREF(writer);
    return status;
}

static PyMethodDef splice_methods[] = {
    {"start", splice_start, METH_VARARGS, "Let MESSAGEs after an entry take the shortcut."},
    {"stop", splice_stop, METH_NOARGS, "Let no more take it."},
    {"take", splice_take, METH_NOARGS, "Return, once, what was delivered; None for nothing."},
    {0},
};

static PyMemberDef splice_members[] = {
    {"fallback", T_OBJECT, offsetof(Splice, fallback), READONLY, NULL},
    {"last", T_OBJECT, offsetof(Splice, last), READONLY, NULL},
    {"ledger_id", T_LONGLONG, offsetof(Splice, ledger_id), READONLY, NULL},
    {"entry_id", T_LONGLONG, offsetof(Splice, entry_id), READONLY, NULL},
    {"running", T_BOOL, offsetof(Splice, running), READONLY, NULL},
    {0},
};

static PyType_Slot splice_slots[] = {
    {Py_tp_doc, "The shortcut of one topic; see readonly_engine.wire.splice."},
    {Py_tp_new, splice_new},
    {Py_tp_dealloc, splice_dealloc},
    {Py_tp_traverse, splice_traverse},
    {Py_tp_clear, splice_clear},
    {Py_tp_methods, splice_methods},
    {Py_tp_members, splice_members},
    {0, NULL},
};

static PyType_Spec splice_spec = {
    .name = "readonly_engine.wire._entries.Splice",
    .basicsize = sizeof(Splice),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = splice_slots,
};

#endif

/* Verify, parse and frame entries on their way from bookies to consumers, as wire/bookie_v2.py, wire/entry_view.py and
   wire/entry.py do in Python. Damaged or rare entries are left to Python: the result is None, or parse_stored of Python is called.
   So errors are raised in one place. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "_message.h"
#include "_reader.h"
#include "_splice.h"
#include "_sticky.h"
#include "_stored.h"
#include "_tuples.h"
#include "_verify.h"
#include "_wire.h"

typedef struct {
    PyTypeObject *position_type;
    PyTypeObject *view_type;
    PyTypeObject *reader_type;
    PyObject *parse_stored;
    PyObject *stored_hash;
    Pushing pushing;
} State;

static struct PyModuleDef module;

/* ---- Verification ---- */

static PyObject *decode_entries(PyObject *self, PyObject *args) {
    Py_buffer frame;
    Py_ssize_t start;
    long long ledger_id, first;
    PyObject *view = Py_None;
    if (!PyArg_ParseTuple(args, "y*nLL|O:decode_entries", &frame, &start, &ledger_id, &first, &view)) {
        return NULL;
    }
    PyObject *entries = NULL;
    if (start < 0 || start > frame.len) {
        PyErr_SetString(PyExc_ValueError, "start is not within the frame");
    } else {
        State *state = PyModule_GetState(self);
        entries = entries_of(state->pushing.entry_type, frame.buf, (size_t)start, (size_t)frame.len, ledger_id, first, view);
    }
    PyBuffer_Release(&frame);
    return entries;
}

static PyObject *checksum(PyObject *Py_UNUSED(self), PyObject *args) {
    Py_buffer data;
    Py_ssize_t start;
    if (!PyArg_ParseTuple(args, "y*n:checksum", &data, &start)) {
        return NULL;
    }
    PyObject *found = NULL;
    if (start < 0 || start > data.len) {
        PyErr_SetString(PyExc_ValueError, "start is not within the data");
    } else {
        found = PyLong_FromUnsignedLong(crc32c(0, (const uint8_t *)data.buf + start, (size_t)(data.len - start)));
    }
    PyBuffer_Release(&data);
    return found;
}

static PyObject *decode_entry(PyObject *self, PyObject *args) {
    Py_buffer body;
    long long ledger_id, entry_id;
    if (!PyArg_ParseTuple(args, "y*LL:decode_entry", &body, &ledger_id, &entry_id)) {
        return NULL;
    }
    PyObject *entry = NULL;
    if (!sound(body.buf, (size_t)body.len, (uint64_t)ledger_id, (uint64_t)entry_id)) {
        entry = Py_NewRef(Py_None);
    } else {
        PyObject *ledger = PyLong_FromLongLong(ledger_id);
        if (ledger != NULL) {
            State *state = PyModule_GetState(self);
            entry = new_entry(state->pushing.entry_type, ledger, body.buf, payload_of(body.buf, (size_t)body.len));
            Py_DECREF(ledger);
        }
    }
    PyBuffer_Release(&body);
    return entry;
}

/* ---- MESSAGE frames of an owner ---- */

static const Pushing *pushing_of(PyObject *reader) {
    State *state = PyType_GetModuleState(Py_TYPE(reader));
    return state == NULL ? NULL : &state->pushing;
}

/* ---- EntryView ---- */

typedef struct {
    PyObject_HEAD
    PyObject *stored; /* bytes */
    Py_ssize_t start;
    PyObject *position; /* created on demand */
    PyObject *txn;
    PyObject *chunk;
    PyObject *frames; /* TopicEntry's; NULL is None */
    long long ledger_id;
    long long entry_id;
    long long deliver_at;
    int messages;
    int sticky_hash;
    char marker;
    char aborts;
} View;

static State *state_of(PyObject *view) {
    PyObject *found = PyType_GetModuleByDef(Py_TYPE(view), &module);
    return found == NULL ? NULL : PyModule_GetState(found);
}

/* Parse an entry in Python, and fill a view with the result. */
static int ask_python(State *state, View *view) {
    int done = -1;
    PyObject *payload = NULL;
    PyObject *parsed = PyObject_CallOneArg(state->parse_stored, view->stored);
    if (parsed == NULL) {
        return -1;
    }
    int marker, aborts;
    PyObject *txn, *chunk;
    if (PyTuple_Check(parsed) && PyArg_ParseTuple(parsed, "O!ipLOpO", &PyBytes_Type, &payload, &view->messages, &marker,
                                                &view->deliver_at, &txn, &aborts, &chunk) &&
        PyBytes_GET_SIZE(payload) <= PyBytes_GET_SIZE(view->stored)) {
        view->start = PyBytes_GET_SIZE(view->stored) - PyBytes_GET_SIZE(payload);
        view->marker = (char)marker;
        view->aborts = (char)aborts;
        view->txn = Py_NewRef(txn);
        view->chunk = Py_NewRef(chunk);
        done = 0;
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "parse_stored returned no StoredMessage");
    }
    Py_DECREF(parsed);
    return done;
}

static int fill(State *state, View *view) {
    Found found;
    const uint8_t *stored = (const uint8_t *)PyBytes_AS_STRING(view->stored);
    if (!parse_stored(stored, (size_t)PyBytes_GET_SIZE(view->stored), &found)) {
        return ask_python(state, view);
    }
    const uint32_t txn = 1u << TXNID_LEAST_BITS | 1u << TXNID_MOST_BITS;
    view->start = (Py_ssize_t)found.start;
    view->messages = found.messages;
    view->deliver_at = found.deliver_at;
    view->marker = (found.seen & 1u << MARKER_TYPE) != 0;
    view->aborts = view->marker && found.marker_type == TXN_ABORT;
    view->chunk = Py_NewRef(Py_None);
    view->txn = (found.seen & txn) == txn
                    ? Py_BuildValue("(LL)", (long long)found.txn_most, (long long)found.txn_least)
                    : Py_NewRef(Py_None);
    return view->txn == NULL ? -1 : 0;
}

static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *entry;
    if ((keywords != NULL && PyDict_GET_SIZE(keywords)) || !PyArg_ParseTuple(args, "O!:EntryView", &PyTuple_Type, &entry)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "an EntryView requires an Entry");
        }
        return NULL;
    }
    PyObject *owner = PyType_GetModuleByDef(type, &module);
    if (owner == NULL) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(entry) != 5 || !PyBytes_Check(PyTuple_GET_ITEM(entry, 4))) {
        PyErr_SetString(PyExc_TypeError, "an EntryView requires an Entry");
        return NULL;
    }
    View *view = (View *)type->tp_alloc(type, 0);
    if (view == NULL) {
        return NULL;
    }
    if (PyType_IS_GC(type)) {
        /* Every Python subclass is tracked. But a view refers to bytes, numbers and tuples of these, so it is in no cycle.
           Untracked, a million of them in a cache cost the garbage collector nothing. */
        PyObject_GC_UnTrack(view);
    }
    view->sticky_hash = UNKNOWN_HASH;
    view->stored = Py_NewRef(PyTuple_GET_ITEM(entry, 4));
    view->ledger_id = PyLong_AsLongLong(PyTuple_GET_ITEM(entry, 0));
    view->entry_id = PyLong_AsLongLong(PyTuple_GET_ITEM(entry, 1));
    if (PyErr_Occurred() || fill(PyModule_GetState(owner), view) < 0) {
        Py_DECREF(view);
        return NULL;
    }
    return (PyObject *)view;
}

static void view_dealloc(PyObject *self) {
    View *view = (View *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(view->stored);
    Py_XDECREF(view->position);
    Py_XDECREF(view->txn);
    Py_XDECREF(view->chunk);
    Py_XDECREF(view->frames);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *view_position(PyObject *self, void *Py_UNUSED(closure)) {
    View *view = (View *)self;
    if (view->position == NULL) {
        State *state = state_of(self);
        PyObject *position = state == NULL ? NULL : state->position_type->tp_alloc(state->position_type, 2);
        if (position == NULL) {
            return NULL;
        }
        PyTuple_SET_ITEM(position, 0, PyLong_FromLongLong(view->ledger_id));
        PyTuple_SET_ITEM(position, 1, PyLong_FromLongLong(view->entry_id));
        if (PyTuple_GET_ITEM(position, 0) == NULL || PyTuple_GET_ITEM(position, 1) == NULL) {
            Py_DECREF(position);
            return NULL;
        }
        view->position = position;
    }
    return Py_NewRef(view->position);
}

static PyObject *view_payload(PyObject *self, void *Py_UNUSED(closure)) {
    View *view = (View *)self;
    if (view->start == 0) {
        return Py_NewRef(view->stored);
    }
    const char *stored = PyBytes_AS_STRING(view->stored);
    return PyBytes_FromStringAndSize(stored + view->start, PyBytes_GET_SIZE(view->stored) - view->start);
}

static PyObject *view_prefix(PyObject *self, void *Py_UNUSED(closure)) {
    View *view = (View *)self;
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(view->stored), view->start);
}

static PyObject *view_size(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromSsize_t(PyBytes_GET_SIZE(((View *)self)->stored));
}

/* Return the hash of the key of a view, 31 bits; -1 with an error. */
static int hash_of(State *state, View *view) {
    if (view->sticky_hash == UNKNOWN_HASH) {
        view->sticky_hash =
            sticky_hash_of((const uint8_t *)PyBytes_AS_STRING(view->stored), (size_t)PyBytes_GET_SIZE(view->stored));
    }
    if (view->sticky_hash == UNKNOWN_HASH) {
        PyObject *found = PyObject_CallOneArg(state->stored_hash, view->stored);
        long hash = found == NULL ? -1 : PyLong_AsLong(found);
        Py_XDECREF(found);
        if (hash < 0 || hash > INT32_MAX) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "stored_hash returned no hash of 31 bits");
            }
            return -1;
        }
        view->sticky_hash = (int)hash;
    }
    return view->sticky_hash;
}

static PyObject *view_sticky_hash(PyObject *self, void *Py_UNUSED(closure)) {
    State *state = state_of(self);
    int hash = state == NULL ? -1 : hash_of(state, (View *)self);
    return hash < 0 ? NULL : PyLong_FromLong(hash);
}

static PyGetSetDef view_properties[] = {
    {"position", view_position, NULL, NULL, NULL},
    {"payload", view_payload, NULL, NULL, NULL},
    {"prefix", view_prefix, NULL, NULL, NULL},
    {"size", view_size, NULL, NULL, NULL},
    {"sticky_hash", view_sticky_hash, NULL, NULL, NULL},
    {0},
};

static PyMemberDef view_members[] = {
    {"stored", T_OBJECT, offsetof(View, stored), READONLY, NULL},
    {"txn", T_OBJECT, offsetof(View, txn), 0, NULL},
    {"chunk", T_OBJECT, offsetof(View, chunk), READONLY, NULL},
    {"ledger_id", T_LONGLONG, offsetof(View, ledger_id), READONLY, NULL},
    {"entry_id", T_LONGLONG, offsetof(View, entry_id), READONLY, NULL},
    {"deliver_at", T_LONGLONG, offsetof(View, deliver_at), READONLY, NULL},
    {"messages", T_INT, offsetof(View, messages), READONLY, NULL},
    {"marker", T_BOOL, offsetof(View, marker), READONLY, NULL},
    {"aborts", T_BOOL, offsetof(View, aborts), READONLY, NULL},
    {"_frames", T_OBJECT, offsetof(View, frames), 0, NULL},
    {0},
};

static PyType_Slot view_slots[] = {
    {Py_tp_doc, "An entry, looked into; see readonly_engine.wire.entry_view."},
    {Py_tp_new, view_new},
    {Py_tp_dealloc, view_dealloc},
    {Py_tp_getset, view_properties},
    {Py_tp_members, view_members},
    {0, NULL},
};

static PyType_Spec view_spec = {
    .name = "readonly_engine.wire._entries.EntryView",
    .basicsize = sizeof(View),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = view_slots,
};

/* ---- Framing ---- */

static Framed framed_of(const View *view) {
    return (Framed){
        .ledger_id = (uint64_t)view->ledger_id,
        .entry_id = (uint64_t)view->entry_id,
        .stored = (const uint8_t *)PyBytes_AS_STRING(view->stored),
        .size = (size_t)PyBytes_GET_SIZE(view->stored),
        .start = (size_t)view->start,
    };
}


/* Copy views into a tuple, which no other thread changes; NULL with an error for anything else. */
static PyObject *sequence_of_views(State *state, PyObject *views) {
    PyObject *sequence = PySequence_Tuple(views);
    for (Py_ssize_t i = 0; sequence != NULL && i < PyTuple_GET_SIZE(sequence); i++) {
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(sequence, i), state->view_type)) {
            PyErr_SetString(PyExc_TypeError, "views: an item is not an EntryView");
            Py_CLEAR(sequence);
        }
    }
    return sequence;
}

static PyObject *encode_views(PyObject *self, PyObject *args) {
    PyObject *views, *consumer;
    int partition;
    long long epoch;
    long long redelivery_count = 0;
    int exposed = 0;
    if (!PyArg_ParseTuple(args, "OO!iL|Lp:encode_views", &views, &PyLong_Type, &consumer, &partition, &epoch,
                          &redelivery_count, &exposed)) {
        return NULL;
    }
    Frames frames = frames_for(PyLong_AsUnsignedLongLongMask(consumer), partition, epoch, (uint64_t)redelivery_count, exposed);
    PyObject *sequence = sequence_of_views(PyModule_GetState(self), views);
    if (sequence == NULL) {
        return NULL;
    }
    Sizes sizes;
    size_t size = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence); i++) {
        Framed framed = framed_of((View *)PyTuple_GET_ITEM(sequence, i));
        size_up(&frames, &framed, &sizes);
        if (sizes.total > UINT32_MAX || size > (size_t)PY_SSIZE_T_MAX - SIZE - sizes.total) {
            PyErr_SetString(PyExc_OverflowError, "the frames are too large");
            Py_DECREF(sequence);
            return NULL;
        }
        size += SIZE + sizes.total;
    }
    PyObject *encoded = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (encoded != NULL) {
        uint8_t *at = (uint8_t *)PyBytes_AS_STRING(encoded);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence); i++) {
            Framed framed = framed_of((View *)PyTuple_GET_ITEM(sequence, i));
            at = put_frame(at, &frames, &framed);
        }
    }
    Py_DECREF(sequence);
    return encoded;
}

/* Return the payload of a frame as `stored` itself, or as a view of its end. */
static PyObject *payload_from(const View *view, size_t start) {
    if (start == 0) {
        return Py_NewRef(view->stored);
    }
    PyObject *whole = PyMemoryView_FromObject(view->stored);
    PyObject *part = whole == NULL ? NULL : part_of(whole, start, (size_t)PyBytes_GET_SIZE(view->stored));
    Py_XDECREF(whole);
    return part;
}

/* See pure_encode_pieces in wire/entry_view.py. */
static PyObject *encode_pieces(PyObject *self, PyObject *args) {
    PyObject *views, *consumer;
    int partition;
    long long epoch;
    int exposed = 0;
    if (!PyArg_ParseTuple(args, "OO!iL|p:encode_pieces", &views, &PyLong_Type, &consumer, &partition, &epoch, &exposed)) {
        return NULL;
    }
    Frames frames = frames_for(PyLong_AsUnsignedLongLongMask(consumer), partition, epoch, 0, exposed);
    PyObject *sequence = sequence_of_views(PyModule_GetState(self), views);
    PyObject *pieces = sequence == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; pieces != NULL && i < PyTuple_GET_SIZE(sequence); i++) {
        View *view = (View *)PyTuple_GET_ITEM(sequence, i);
        Framed framed = framed_of(view);
        Sizes sizes;
        size_up(&frames, &framed, &sizes);
        if (sizes.total > UINT32_MAX) {
            PyErr_SetString(PyExc_OverflowError, "the frames are too large");
            Py_CLEAR(pieces);
            break;
        }
        PyObject *head = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(2 * SIZE + sizes.command));
        PyObject *payload = head == NULL ? NULL : payload_from(view, start_of(&frames, &framed));
        if (payload != NULL) {
            (void)put_head((uint8_t *)PyBytes_AS_STRING(head), &frames, &framed);
        }
        if (payload == NULL || PyList_Append(pieces, head) < 0 || PyList_Append(pieces, payload) < 0) {
            Py_CLEAR(pieces);
        }
        Py_XDECREF(head);
        Py_XDECREF(payload);
    }
    Py_XDECREF(sequence);
    return pieces;
}

static PyObject *summarize(PyObject *self, PyObject *views) {
    PyObject *sequence = sequence_of_views(PyModule_GetState(self), views);
    if (sequence == NULL) {
        return NULL;
    }
    long long messages = 0;
    Py_ssize_t size = 0;
    bool plain = true, loose = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence); i++) {
        const View *view = (View *)PyTuple_GET_ITEM(sequence, i);
        messages += view->messages;
        size += PyBytes_GET_SIZE(view->stored);
        plain = plain && !view->marker && (view->txn == NULL || view->txn == Py_None);
        loose = loose && view->deliver_at == 0 && (view->chunk == NULL || view->chunk == Py_None);
    }
    Py_DECREF(sequence);
    return Py_BuildValue("(LnNN)", messages, size, PyBool_FromLong(plain), PyBool_FromLong(loose));
}

/* See pure_views_of_slots in wire/entry_view.py. */
static PyObject *views_of_slots(PyObject *self, PyObject *args) {
    PyObject *views, *slots;
    int sticky = 0;
    if (!PyArg_ParseTuple(args, "OS|p:views_of_slots", &views, &slots, &sticky)) {
        return NULL;
    }
    Py_ssize_t count = PyBytes_GET_SIZE(slots) * 8;
    if (count < 2 || count > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "slots: too few, or too many");
        return NULL;
    }
    State *state = PyModule_GetState(self);
    PyObject *sequence = sequence_of_views(state, views);
    PyObject *chosen = sequence == NULL ? NULL : PyList_New(0);
    const uint8_t *bits = (const uint8_t *)PyBytes_AS_STRING(slots);
    for (Py_ssize_t i = 0; chosen != NULL && i < PyTuple_GET_SIZE(sequence); i++) {
        PyObject *view = PyTuple_GET_ITEM(sequence, i);
        int hash = hash_of(state, (View *)view);
        int slot = hash < 0 ? 0 : sticky ? hash % (int)count : hash % (int)(count - 1) + 1;
        slot = slot == 0 ? 1 : slot;
        if (hash < 0 || (bits[slot >> 3] >> (slot & 7) & 1 && PyList_Append(chosen, view) < 0)) {
            Py_CLEAR(chosen);
        }
    }
    Py_XDECREF(sequence);
    return chosen;
}

/* ---- The module ---- */

static int set_up(PyObject *self) {
    State *state = PyModule_GetState(self);
    crc32c_prepare();
    state->pushing.entry_type = tuple_type("readonly_engine.wire.entry", "Entry");
    if (state->pushing.entry_type == NULL) {
        return -1;
    }
    state->position_type = tuple_type("readonly_engine.wire.position", "Position");
    if (state->position_type == NULL) {
        return -1;
    }
    PyObject *source = PyImport_ImportModule("readonly_engine.wire.message");
    state->parse_stored = source == NULL ? NULL : PyObject_GetAttrString(source, "parse_stored");
    Py_XDECREF(source);
    source = PyImport_ImportModule("readonly_engine.wire.sticky_key");
    state->stored_hash = source == NULL ? NULL : PyObject_GetAttrString(source, "stored_hash");
    Py_XDECREF(source);
    if (state->parse_stored == NULL || state->stored_hash == NULL) {
        return -1;
    }
    state->view_type = (PyTypeObject *)PyType_FromModuleAndSpec(self, &view_spec, NULL);
    state->pushing.splice_type = (PyTypeObject *)PyType_FromModuleAndSpec(self, &splice_spec, NULL);
    state->reader_type = (PyTypeObject *)PyType_FromModuleAndSpec(self, &reader_spec, NULL);
    PyTypeObject *types[] = {state->view_type, state->pushing.splice_type, state->reader_type};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i] == NULL || PyModule_AddType(self, types[i]) < 0) {
            return -1;
        }
    }
    return pushing_names(&state->pushing) ? 0 : -1;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    State *state = PyModule_GetState(self);
    Py_VISIT(state->pushing.entry_type);
    Py_VISIT(state->position_type);
    Py_VISIT(state->view_type);
    Py_VISIT(state->pushing.splice_type);
    Py_VISIT(state->reader_type);
    Py_VISIT(state->parse_stored);
    Py_VISIT(state->stored_hash);
    return 0;
}

static int clear(PyObject *self) {
    State *state = PyModule_GetState(self);
    pushing_clear(&state->pushing);
    Py_CLEAR(state->position_type);
    Py_CLEAR(state->view_type);
    Py_CLEAR(state->reader_type);
    Py_CLEAR(state->parse_stored);
    Py_CLEAR(state->stored_hash);
    return 0;
}

static PyMethodDef functions[] = {
    {"checksum", checksum, METH_VARARGS, "CRC-32C of data from an offset on, without a copy."},
    {"decode_entries", decode_entries, METH_VARARGS, "The entries of a batch; None if one is damaged or rare."},
    {"decode_entry", decode_entry, METH_VARARGS, "An entry; None if it is damaged or rare."},
    {"encode_views", encode_views, METH_VARARGS, "MESSAGE frames, one after another."},
    {"encode_pieces", encode_pieces, METH_VARARGS, "MESSAGE frames, each as its head and its payload, without a copy."},
    {"views_of_slots", views_of_slots, METH_VARARGS, "The views whose keys are in a set of slots."},
    {"summarize", summarize, METH_O, "Messages and bytes of views, and whether all are plain, and loose."},
    {0},
};

static struct PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_entries",
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__entries(void) { return PyModuleDef_Init(&module); }

/* Verify, parse and frame entries on their way from bookies to consumers, as wire/bookie_v2.py, wire/entry_view.py and
   wire/entry.py do in Python. Damaged or rare entries are left to Python: the result is None, or parse_stored of Python is called.
   So errors are raised in one place. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "_tuples.h"
#include "_verify.h"
#include "_wire.h"

enum {
    MAGIC = 2,
    CHECKSUM = 6, /* with its magic */
    NO_EPOCH = -1,
    NO_HASH = -1,
};

typedef struct {
    PyTypeObject *entry_type;
    PyTypeObject *position_type;
    PyTypeObject *view_type;
    PyObject *parse_stored;
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
        entries = entries_of(state->entry_type, frame.buf, (size_t)start, (size_t)frame.len, ledger_id, first, view);
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
            entry = new_entry(state->entry_type, ledger, body.buf, payload_of(body.buf, (size_t)body.len));
            Py_DECREF(ledger);
        }
    }
    PyBuffer_Release(&body);
    return entry;
}

/* ---- MESSAGE frames of an owner ---- */

/* Load the number of a field that must come next, with this tag. */
static bool load_number(const uint8_t **at, const uint8_t *end, uint8_t tag, uint64_t *number) {
    if (*at >= end || **at != tag) {
        return false;
    }
    ++*at;
    return load_varint(at, end, number);
}

typedef struct {
    uint64_t consumer_id;
    uint64_t ledger_id;
    uint64_t entry_id;
    const uint8_t *payload;
    const uint8_t *end;
} Pushed;

/* Load the MESSAGE at `at`, with its length prefix. False for anything else, for a frame that has not arrived completely, and for a
   MESSAGE with more than consumer id, ledger, entry and partition. */
static bool load_pushed(const uint8_t *at, const uint8_t *end, Pushed *pushed) {
    uint64_t size, partition;
    if (end - at < 2 * SIZE) {
        return false;
    }
    uint64_t total = load_u32(at), command = load_u32(at + SIZE);
    if (total < SIZE || total > (uint64_t)(end - at) - SIZE || command > total - SIZE || command < 2) {
        return false;
    }
    pushed->end = at + SIZE + total;
    at += 2 * SIZE;
    const uint8_t *payload = pushed->payload = at + command;
    if (at[0] != 0x08 || at[1] != 0x09) { /* type: MESSAGE */
        return false;
    }
    at += 2;
    if (!load_number(&at, payload, 0x4A, &size) || size != (uint64_t)(payload - at) || /* message */
        !load_number(&at, payload, 0x08, &pushed->consumer_id) || !load_number(&at, payload, 0x12, &size) ||
        size != (uint64_t)(payload - at) || /* message_id, the last field */
        !load_number(&at, payload, 0x08, &pushed->ledger_id) || !load_number(&at, payload, 0x10, &pushed->entry_id)) {
        return false;
    }
    if (at < payload && !load_number(&at, payload, 0x18, &partition)) {
        return false;
    }
    return at == payload && pushed->ledger_id <= INT64_MAX && pushed->entry_id <= INT64_MAX;
}

static PyObject *entry_of(PyTypeObject *type, const Pushed *pushed) {
    PyObject *entry = type->tp_alloc(type, 5);
    if (entry == NULL) {
        return NULL;
    }
    PyTuple_SET_ITEM(entry, 0, PyLong_FromUnsignedLongLong(pushed->ledger_id));
    PyTuple_SET_ITEM(entry, 1, PyLong_FromUnsignedLongLong(pushed->entry_id));
    PyTuple_SET_ITEM(entry, 2, PyLong_FromUnsignedLongLong(pushed->entry_id));
    PyTuple_SET_ITEM(entry, 3, PyLong_FromLong(0));
    PyTuple_SET_ITEM(entry, 4, PyBytes_FromStringAndSize((const char *)pushed->payload, pushed->end - pushed->payload));
    for (int i = 0; i < 5; i++) {
        if (PyTuple_GET_ITEM(entry, i) == NULL) {
            Py_DECREF(entry);
            return NULL;
        }
    }
    return entry;
}

/* Append an entry to the last run if that is of the same handler, else to a new run. */
static int add_to_runs(PyObject *runs, PyObject *handler, PyObject *entry) {
    Py_ssize_t count = PyList_GET_SIZE(runs);
    PyObject *last = count ? PyList_GET_ITEM(runs, count - 1) : NULL;
    if (last != NULL && PyTuple_GET_ITEM(last, 0) == handler) {
        return PyList_Append(PyTuple_GET_ITEM(last, 1), entry);
    }
    PyObject *run = Py_BuildValue("(O[O])", handler, entry);
    int status = run == NULL ? -1 : PyList_Append(runs, run);
    Py_XDECREF(run);
    return status;
}

/* See wire/pushed.py. */
static PyObject *decode_pushed(PyObject *self, PyObject *args) {
    PyObject *data, *handlers;
    if (!PyArg_ParseTuple(args, "SO!:decode_pushed", &data, &PyDict_Type, &handlers)) {
        return NULL;
    }
    State *state = PyModule_GetState(self);
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(data);
    const uint8_t *at = begin, *end = begin + PyBytes_GET_SIZE(data);
    PyObject *runs = PyList_New(0);
    Pushed pushed;
    while (runs != NULL && load_pushed(at, end, &pushed)) {
        PyObject *consumer_id = PyLong_FromUnsignedLongLong(pushed.consumer_id);
        PyObject *handler = consumer_id == NULL ? NULL : PyDict_GetItemWithError(handlers, consumer_id);
        Py_XDECREF(consumer_id);
        if (handler == NULL) {
            if (PyErr_Occurred()) {
                Py_CLEAR(runs);
            }
            break;
        }
        Py_INCREF(handler);
        PyObject *entry = entry_of(state->entry_type, &pushed);
        if (entry == NULL || add_to_runs(runs, handler, entry) < 0) {
            Py_CLEAR(runs);
        }
        Py_XDECREF(entry);
        Py_DECREF(handler);
        at = pushed.end;
    }
    return runs == NULL ? NULL : Py_BuildValue("(Nn)", runs, (Py_ssize_t)(at - begin));
}

/* ---- Parsing ---- */

enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5 };

enum {
    PRODUCER_NAME = 1,
    SEQUENCE_ID = 2,
    PUBLISH_TIME = 3,
    PROPERTIES = 4,
    NUM_MESSAGES_IN_BATCH = 11,
    ENCRYPTION_KEYS = 13,
    DELIVER_AT_TIME = 19,
    MARKER_TYPE = 20,
    TXNID_LEAST_BITS = 22,
    TXNID_MOST_BITS = 23,
    UUID = 26,
    TXN_ABORT = 22,
};

typedef struct {
    size_t start; /* of the bytes for consumers */
    int32_t messages;
    int32_t marker_type;
    int64_t deliver_at;
    int64_t txn_least;
    int64_t txn_most;
    uint32_t seen; /* fields, as bits */
} Found;

/* One field. `value` is the number of a VARINT field; for other types, `value` bytes start at `begin`. */
typedef struct {
    uint32_t number;
    int type;
    uint64_t value;
    const uint8_t *begin;
} Field;

/* Load the field at *at and move *at behind it. False for a damaged field, or one of a type that is left to Python (groups). */
static bool load_field(const uint8_t **at, const uint8_t *end, Field *field) {
    uint64_t tag, rest;
    const uint8_t *begin = *at;
    if (!load_varint(at, end, &tag) || *at - begin > 5 || tag > UINT32_MAX || tag < 8) {
        return false;
    }
    field->number = (uint32_t)(tag >> 3);
    field->type = (int)(tag & 7);
    switch (field->type) {
    case VARINT:
        return load_varint(at, end, &field->value);
    case FIXED_64:
        rest = 8;
        break;
    case FIXED_32:
        rest = 4;
        break;
    case BYTES:
        begin = *at;
        if (!load_varint(at, end, &rest) || *at - begin > 5) {
            return false;
        }
        break;
    default:
        return false;
    }
    if (rest > (uint64_t)(end - *at)) {
        return false;
    }
    field->begin = *at;
    field->value = rest;
    *at += rest;
    return true;
}

static bool fields_are_sound(const uint8_t *at, const uint8_t *end) {
    Field field;
    while (at < end) {
        if (!load_field(&at, end, &field)) {
            return false;
        }
    }
    return true;
}

static bool parse_metadata(const uint8_t *at, const uint8_t *end, Found *found) {
    Field field;
    while (at < end) {
        if (!load_field(&at, end, &field)) {
            return false;
        }
        if (field.type == BYTES) {
            switch (field.number) {
            case PRODUCER_NAME:
                break;
            case PROPERTIES:
                if (!fields_are_sound(field.begin, field.begin + field.value)) {
                    return false;
                }
                break;
            case ENCRYPTION_KEYS: /* messages within messages */
            case UUID:            /* a part of a large message */
                return false;
            default:
                continue;
            }
        } else if (field.type == VARINT) {
            switch (field.number) {
            case SEQUENCE_ID:
            case PUBLISH_TIME:
                break;
            case NUM_MESSAGES_IN_BATCH:
                found->messages = (int32_t)(uint32_t)field.value;
                break;
            case DELIVER_AT_TIME:
                found->deliver_at = (int64_t)field.value;
                break;
            case MARKER_TYPE:
                found->marker_type = (int32_t)(uint32_t)field.value;
                break;
            case TXNID_LEAST_BITS:
                found->txn_least = (int64_t)field.value;
                break;
            case TXNID_MOST_BITS:
                found->txn_most = (int64_t)field.value;
                break;
            default:
                continue;
            }
        } else {
            continue;
        }
        found->seen |= 1u << field.number;
    }
    const uint32_t required = 1u << PRODUCER_NAME | 1u << SEQUENCE_ID | 1u << PUBLISH_TIME;
    return (found->seen & required) == required;
}

/* Return false if Python must parse the entry. */
static bool parse_stored(const uint8_t *stored, size_t size, Found *found) {
    *found = (Found){.messages = 1};
    size_t at = 0;
    if (size >= MAGIC + SIZE && stored[0] == 0x0E && stored[1] == 0x02) { /* the owner's own metadata */
        size_t skipped = load_u32(stored + MAGIC);
        if (skipped > size - MAGIC - SIZE) {
            return false;
        }
        at = MAGIC + SIZE + skipped;
    }
    found->start = at;
    if (size - at >= CHECKSUM && stored[at] == 0x0E && stored[at + 1] == 0x01) {
        at += CHECKSUM;
    }
    if (size - at < SIZE) {
        return false;
    }
    size_t metadata = load_u32(stored + at);
    at += SIZE;
    return metadata <= size - at && parse_metadata(stored + at, stored + at + metadata, found);
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
    view->sticky_hash = NO_HASH;
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

static PyGetSetDef view_properties[] = {
    {"position", view_position, NULL, NULL, NULL},
    {"payload", view_payload, NULL, NULL, NULL},
    {"prefix", view_prefix, NULL, NULL, NULL},
    {"size", view_size, NULL, NULL, NULL},
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
    {"_sticky_hash", T_INT, offsetof(View, sticky_hash), 0, NULL},
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

/* Common fields of MESSAGE frames; see encode_message_frame. */
typedef struct {
    uint64_t consumer_id;
    uint64_t partition;
    uint64_t redelivery_count;
    uint64_t epoch;
    size_t rest; /* bytes of the last two, if present */
    bool has_epoch;
    Py_ssize_t stripped; /* all bits, or none to send the owner's own metadata, too */
} Frames;

typedef struct {
    size_t id;      /* MessageIdData */
    size_t body;    /* CommandMessage */
    size_t command; /* BaseCommand */
    size_t total;
} Sizes;

static Py_ssize_t start_of(const Frames *frames, const View *view) { return view->start & frames->stripped; }

static void size_up(const Frames *frames, const View *view, Sizes *sizes) {
    sizes->id = 3 + varint_size((uint64_t)view->ledger_id) + varint_size((uint64_t)view->entry_id) +
                varint_size(frames->partition);
    sizes->body = 2 + varint_size(frames->consumer_id) + varint_size(sizes->id) + sizes->id + frames->rest;
    sizes->command = 3 + varint_size(sizes->body) + sizes->body;
    sizes->total = SIZE + sizes->command + (size_t)(PyBytes_GET_SIZE(view->stored) - start_of(frames, view));
}

static uint8_t *put_frame(uint8_t *at, const Frames *frames, const View *view) {
    Sizes sizes;
    size_up(frames, view, &sizes);
    at = store_u32(at, (uint32_t)sizes.total);
    at = store_u32(at, (uint32_t)sizes.command);
    *at++ = 0x08; /* type: MESSAGE */
    *at++ = 0x09;
    *at++ = 0x4A; /* message */
    at = store_varint(at, sizes.body);
    *at++ = 0x08; /* consumer_id */
    at = store_varint(at, frames->consumer_id);
    *at++ = 0x12; /* message_id */
    at = store_varint(at, sizes.id);
    *at++ = 0x08; /* ledgerId */
    at = store_varint(at, (uint64_t)view->ledger_id);
    *at++ = 0x10; /* entryId */
    at = store_varint(at, (uint64_t)view->entry_id);
    *at++ = 0x18; /* partition */
    at = store_varint(at, frames->partition);
    if (frames->redelivery_count) {
        *at++ = 0x18;
        at = store_varint(at, frames->redelivery_count);
    }
    if (frames->has_epoch) {
        *at++ = 0x28;
        at = store_varint(at, frames->epoch);
    }
    Py_ssize_t start = start_of(frames, view);
    size_t size = (size_t)(PyBytes_GET_SIZE(view->stored) - start);
    memcpy(at, PyBytes_AS_STRING(view->stored) + start, size);
    return at + size;
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
    Frames frames = {
        .consumer_id = PyLong_AsUnsignedLongLongMask(consumer),
        .partition = (uint64_t)(int64_t)(partition < 0 ? -1 : partition),
        .redelivery_count = (uint64_t)redelivery_count,
        .epoch = (uint64_t)epoch,
        .has_epoch = epoch > NO_EPOCH,
        .stripped = exposed ? 0 : -1,
    };
    frames.rest = (frames.redelivery_count ? 1 + varint_size(frames.redelivery_count) : 0) +
                  (frames.has_epoch ? 1 + varint_size(frames.epoch) : 0);
    PyObject *sequence = sequence_of_views(PyModule_GetState(self), views);
    if (sequence == NULL) {
        return NULL;
    }
    Sizes sizes;
    size_t size = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence); i++) {
        size_up(&frames, (View *)PyTuple_GET_ITEM(sequence, i), &sizes);
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
            at = put_frame(at, &frames, (View *)PyTuple_GET_ITEM(sequence, i));
        }
    }
    Py_DECREF(sequence);
    return encoded;
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

/* ---- The module ---- */

static int set_up(PyObject *self) {
    State *state = PyModule_GetState(self);
    crc32c_prepare();
    state->entry_type = tuple_type("readonly_engine.wire.entry", "Entry");
    if (state->entry_type == NULL) {
        return -1;
    }
    state->position_type = tuple_type("readonly_engine.wire.position", "Position");
    if (state->position_type == NULL) {
        return -1;
    }
    PyObject *source = PyImport_ImportModule("readonly_engine.wire.message");
    state->parse_stored = source == NULL ? NULL : PyObject_GetAttrString(source, "parse_stored");
    Py_XDECREF(source);
    if (state->parse_stored == NULL) {
        return -1;
    }
    state->view_type = (PyTypeObject *)PyType_FromModuleAndSpec(self, &view_spec, NULL);
    return state->view_type == NULL ? -1 : PyModule_AddType(self, state->view_type);
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    State *state = PyModule_GetState(self);
    Py_VISIT(state->entry_type);
    Py_VISIT(state->position_type);
    Py_VISIT(state->view_type);
    Py_VISIT(state->parse_stored);
    return 0;
}

static int clear(PyObject *self) {
    State *state = PyModule_GetState(self);
    Py_CLEAR(state->entry_type);
    Py_CLEAR(state->position_type);
    Py_CLEAR(state->view_type);
    Py_CLEAR(state->parse_stored);
    return 0;
}

static PyMethodDef functions[] = {
    {"checksum", checksum, METH_VARARGS, "CRC-32C of data from an offset on, without a copy."},
    {"decode_entries", decode_entries, METH_VARARGS, "The entries of a batch; None if one is damaged or rare."},
    {"decode_entry", decode_entry, METH_VARARGS, "An entry; None if it is damaged or rare."},
    {"decode_pushed", decode_pushed, METH_VARARGS, "Handlers and entries of MESSAGEs, and the bytes that these take."},
    {"encode_views", encode_views, METH_VARARGS, "MESSAGE frames, one after another."},
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

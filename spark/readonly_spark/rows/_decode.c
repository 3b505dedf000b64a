/* From entries to columns, in C: the twin of rows.py's ListRows for the entries that nearly all topics consist of.

   `Rows.decode` takes entries as long as they are usual: not encrypted, no chunk, no marker, not compressed, every field known
   and sound. At any other one it stops, with nothing of it taken, and Python does it: so what is left out, and what is an error
   and how it reads, is decided in one place. Whatever this file reads is bounded by the entry that it is in. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_columns.h"
#include "_ids.h"
#include "_metadata.h"
#include "_wire.h"

/* Rows */

enum { WITH_VALUES = 1, WITH_KEYS = 2, WITH_PROPERTIES = 4, WITH_TIMES = 8, WITH_SEQUENCE = 16 };
enum { ROW_BYTES = 96, MOST_PROPERTIES = 64 };

typedef struct {
    Texts values, keys, ordering_keys, property_keys, property_values;
    Numbers property_ends, event_times, sequence_ids;
    Buffer batch_indexes;
    size_t rows;
    bool outside; /* a row stands outside of a batch */
} Columns;

typedef struct {
    PyObject_HEAD
    Columns columns;
    Buffer counts; /* rows of each entry */
    PyObject *facts;
    size_t entered; /* rows of those entries */
    Py_ssize_t size;
    unsigned with;
} Rows;

typedef enum { FAILED = -1, UNUSUAL = 0, TAKEN = 1 } Outcome;

static void columns_cut(Columns *columns, const Columns *before) {
    texts_cut(&columns->values, &before->values);
    texts_cut(&columns->keys, &before->keys);
    texts_cut(&columns->ordering_keys, &before->ordering_keys);
    texts_cut(&columns->property_keys, &before->property_keys);
    texts_cut(&columns->property_values, &before->property_values);
    numbers_cut(&columns->property_ends, &before->property_ends);
    numbers_cut(&columns->event_times, &before->event_times);
    numbers_cut(&columns->sequence_ids, &before->sequence_ids);
    columns->batch_indexes.size = before->batch_indexes.size;
    columns->rows = before->rows;
    columns->outside = before->outside;
}

static void columns_free(Columns *columns) {
    texts_free(&columns->values);
    texts_free(&columns->keys);
    texts_free(&columns->ordering_keys);
    texts_free(&columns->property_keys);
    texts_free(&columns->property_values);
    numbers_free(&columns->property_ends);
    numbers_free(&columns->event_times);
    numbers_free(&columns->sequence_ids);
    give_back(&columns->batch_indexes);
    columns->rows = 0;
    columns->outside = false;
}

/* Properties of the row that comes next, from the fields of its metadata with this tag. Of equal keys the last counts. */
static Outcome append_properties(Columns *columns, const uint8_t *at, const uint8_t *end, uint64_t wanted) {
    Text keys[MOST_PROPERTIES], values[MOST_PROPERTIES];
    size_t count = 0;
    while (at < end) {
        uint64_t tag, number;
        Text key, value;
        if (!load_varint(&at, end, &tag)) {
            return UNUSUAL;
        }
        if (tag != wanted) {
            if (!((tag & 7) == VARINT ? load_varint(&at, end, &number) : (tag & 7) == LENGTH && load_text(&at, end, &key))) {
                return UNUSUAL;
            }
            continue;
        }
        if (!load_property(&at, end, &key, &value) || !is_utf8(key) || !is_utf8(value)) {
            return UNUSUAL;
        }
        size_t place = 0;
        while (place < count && (keys[place].size != key.size || memcmp(keys[place].at, key.at, key.size))) {
            place++;
        }
        if (place == MOST_PROPERTIES) {
            return UNUSUAL;
        }
        keys[place] = key;
        values[place] = value;
        count = place == count ? count + 1 : count;
    }
    for (size_t index = 0; index < count; index++) {
        size_t row = columns->property_keys.filled;
        if (!texts_append(&columns->property_keys, row, keys[index]) ||
            !texts_append(&columns->property_values, row, values[index])) {
            return FAILED;
        }
    }
    return TAKEN;
}

/* `property_ends` tells of rows up to its `filled` where their properties end; later ones have none, and end there too. */
static bool properties_end(Columns *columns) {
    Numbers *ends = &columns->property_ends;
    size_t from = ends->filled;
    int64_t before = from ? ((int64_t *)ends->data.at)[from - 1] : 0;
    if (!numbers_append(ends, columns->rows, (int64_t)columns->property_keys.filled)) {
        return false;
    }
    for (size_t row = from; row < columns->rows; row++) {
        ((int64_t *)ends->data.at)[row] = before;
    }
    return true;
}

static bool append_index(Columns *columns, int32_t index) {
    if (!make_room(&columns->batch_indexes, sizeof index)) {
        return false;
    }
    memcpy(columns->batch_indexes.at + columns->batch_indexes.size, &index, sizeof index);
    columns->batch_indexes.size += sizeof index;
    columns->outside = columns->outside || index < 0;
    return true;
}

/* The key, as its bytes were before base64. */
static Outcome append_key(Columns *columns, const Single *single) {
    if (!single->key_in_base64) {
        return texts_append(&columns->keys, columns->rows, single->key) ? TAKEN : FAILED;
    }
    Py_ssize_t size = base64_size(single->key);
    if (size < 0) {
        return UNUSUAL;
    }
    uint8_t *at = texts_room(&columns->keys, columns->rows, (size_t)size);
    return !at ? FAILED : base64_decode(single->key, at, (size_t)size) ? TAKEN : UNUSUAL;
}

static bool sound_base64(Text text) {
    Py_ssize_t size = base64_size(text);
    uint8_t group[3];
    for (size_t at = 0; size >= 0 && at < text.size; at += 4) {
        size_t here = (size_t)size - at / 4 * 3;
        if (!base64_decode((Text){text.at + at, 4}, group, here < 3 ? here : 3)) {
            return false;
        }
    }
    return size >= 0;
}

/* One message; `head` is its metadata, in which properties have this tag. */
static Outcome append_message(
    Rows *self, const Single *single, Text head, uint64_t property_tag, Text value, int32_t index, int64_t sequence_id) {
    Columns *columns = &self->columns;
    bool has_key = single->key.at && !single->null_key;
    if (self->with & WITH_VALUES && !single->null_value && !texts_append(&columns->values, columns->rows, value)) {
        return FAILED;
    }
    if (self->with & WITH_KEYS) {
        Outcome outcome = has_key ? append_key(columns, single) : TAKEN;
        if (outcome != TAKEN) {
            return outcome;
        }
        if (single->ordering_key.at && !texts_append(&columns->ordering_keys, columns->rows, single->ordering_key)) {
            return FAILED;
        }
    } else if (has_key && single->key_in_base64 && !sound_base64(single->key)) {
        return UNUSUAL;
    }
    if (single->properties && self->with & WITH_PROPERTIES) {
        Outcome outcome = append_properties(columns, head.at, head.at + head.size, property_tag);
        if (outcome != TAKEN) {
            return outcome;
        }
        if (!properties_end(columns)) {
            return FAILED;
        }
    }
    if (single->event_time && self->with & WITH_TIMES &&
        !numbers_append(&columns->event_times, columns->rows, single->event_time)) {
        return FAILED;
    }
    if (self->with & WITH_SEQUENCE && !numbers_append(&columns->sequence_ids, columns->rows, sequence_id)) {
        return FAILED;
    }
    if (!append_index(columns, index)) {
        return FAILED;
    }
    columns->rows++;
    return TAKEN;
}

/* A message of a batch that has nothing but its size and perhaps a number: nearly all of them. */
static inline bool load_plain(const uint8_t *at, const uint8_t *end, Single *single) {
    if (at == end || *at++ != TAG(3, VARINT) || !load_varint(&at, end, &single->payload_size) ||
        single->payload_size > INT32_MAX) {
        return false;
    }
    single->has_sequence_id = at < end;
    if (at < end) {
        uint64_t number;
        if (*at++ != TAG(8, VARINT) || !load_varint(&at, end, &number)) {
            return false;
        }
        single->sequence_id = (int64_t)number;
    }
    return at == end;
}

/* The messages of a batch; what was appended of an unusual one is not taken back. */
static Outcome append_batch(Rows *self, Text body, uint64_t count, int64_t first_sequence_id) {
    if (!count || count > body.size / 4) {
        return UNUSUAL;
    }
    const uint8_t *at = body.at, *end = body.at + body.size;
    for (uint64_t index = 0; index < count; index++) {
        if (end - at < 4) {
            return UNUSUAL;
        }
        uint32_t size = load_u32(at);
        at += 4;
        if (size > (uint64_t)(end - at)) {
            return UNUSUAL;
        }
        Text head = {at, size};
        at += size;
        Single single = {0};
        if (!load_plain(head.at, at, &single) && !load_single(head.at, at, &single)) {
            return UNUSUAL;
        }
        if (single.payload_size > (uint64_t)(end - at)) {
            return UNUSUAL;
        }
        Text value = {at, (size_t)single.payload_size};
        at += single.payload_size;
        if (single.compacted_out) {
            continue;
        }
        int64_t sequence_id =
            single.has_sequence_id ? single.sequence_id : (int64_t)((uint64_t)first_sequence_id + index);
        Outcome outcome = append_message(self, &single, head, TAG(1, LENGTH), value, (int32_t)index, sequence_id);
        if (outcome != TAKEN) {
            return outcome;
        }
    }
    self->size += (Py_ssize_t)body.size;
    return TAKEN;
}

/* The rows since the last entry belong to this one. */
static bool end_entry(Rows *self, PyObject *facts) {
    size_t count = self->columns.rows - self->entered;
    int32_t number = (int32_t)count;
    if (!make_room(&self->counts, sizeof number) || PyList_Append(self->facts, facts) < 0) {
        return false;
    }
    memcpy(self->counts.at + self->counts.size, &number, sizeof number);
    self->counts.size += sizeof number;
    self->entered = self->columns.rows;
    self->size += (Py_ssize_t)(count * ROW_BYTES);
    return true;
}

static PyObject *text_or_none(Text text) {
    return text.at ? PyUnicode_DecodeUTF8((const char *)text.at, (Py_ssize_t)text.size, "replace") : Py_NewRef(Py_None);
}

static PyObject *facts_of(PyObject *ledger_id, PyObject *entry_id, const Metadata *metadata) {
    PyObject *items[9] = {
        Py_NewRef(ledger_id),
        Py_NewRef(entry_id),
        metadata->batched ? PyLong_FromUnsignedLongLong(metadata->messages) : Py_NewRef(Py_None),
        PyLong_FromLongLong(metadata->publish_time),
        PyLong_FromLongLong(metadata->broker_time),
        text_or_none(metadata->producer_name),
        metadata->schema_version.at ? PyBytes_FromStringAndSize((const char *)metadata->schema_version.at,
                                                                (Py_ssize_t)metadata->schema_version.size)
                                    : Py_NewRef(Py_None),
        text_or_none(metadata->replicated_from),
        Py_NewRef(Py_None), /* encryption */
    };
    bool complete = true;
    for (int index = 0; index < 9; index++) {
        complete = complete && items[index];
    }
    PyObject *facts = complete ? PyTuple_New(9) : NULL;
    for (Py_ssize_t index = 0; index < 9; index++) {
        if (facts) {
            PyTuple_SET_ITEM(facts, index, items[index]);
        } else {
            Py_XDECREF(items[index]);
        }
    }
    return facts;
}

/* One entry; of an unusual one nothing is taken. */
static Outcome decode_entry(Rows *self, PyObject *ledger_id, PyObject *entry_id, Text payload, bool refuse_transactions) {
    const uint8_t *at = payload.at, *end = payload.at + payload.size;
    Metadata metadata = {0};
    if (end - at >= 6 && at[0] == 0x0E && at[1] == 0x02) {
        uint32_t size = load_u32(at + 2);
        at += 6;
        if (size > (uint64_t)(end - at) || !load_broker_metadata(at, at + size, &metadata.broker_time)) {
            return UNUSUAL;
        }
        at += size;
    }
    if (end - at >= 6 && at[0] == 0x0E && at[1] == 0x01) {
        if (crc32c(0, at + 6, (size_t)(end - at - 6)) != load_u32(at + 2)) {
            return UNUSUAL;
        }
        at += 6;
    }
    if (end - at < 4 || load_u32(at) > (uint64_t)(end - at - 4)) {
        return UNUSUAL;
    }
    Text head = {at + 4, load_u32(at)};
    Text body = {head.at + head.size, (size_t)(end - head.at) - head.size};
    if (!load_metadata(head.at, body.at, &metadata) || (metadata.transaction && refuse_transactions)) {
        return UNUSUAL;
    }
    Columns before = self->columns;
    Py_ssize_t bytes = self->size;
    Outcome outcome;
    if (metadata.batched) {
        outcome = append_batch(self, body, metadata.messages, metadata.message.sequence_id);
    } else {
        outcome = append_message(self, &metadata.message, head, TAG(4, LENGTH), body, -1, metadata.message.sequence_id);
        self->size += (Py_ssize_t)(body.size + metadata.message.key.size);
    }
    if (outcome == TAKEN && self->columns.rows > self->entered) {
        PyObject *facts = facts_of(ledger_id, entry_id, &metadata);
        if (!facts || !end_entry(self, facts)) {
            outcome = FAILED;
        }
        Py_XDECREF(facts);
    }
    if (outcome != TAKEN) {
        columns_cut(&self->columns, &before);
        self->size = bytes;
    }
    return outcome;
}

/* Methods */

static PyObject *rows_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"values", "keys", "properties", "times", "sequence", NULL};
    int values, keys, properties, times, sequence;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "$ppppp:Rows", names, &values, &keys, &properties, &times, &sequence)) {
        return NULL;
    }
    Rows *self = (Rows *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->with = (values ? WITH_VALUES : 0) | (keys ? WITH_KEYS : 0) | (properties ? WITH_PROPERTIES : 0) |
                 (times ? WITH_TIMES : 0) | (sequence ? WITH_SEQUENCE : 0);
    self->facts = PyList_New(0);
    if (!self->facts) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void rows_dealloc(Rows *self) {
    PyTypeObject *type = Py_TYPE(self);
    columns_free(&self->columns);
    give_back(&self->counts);
    Py_XDECREF(self->facts);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *rows_decode(Rows *self, PyObject *arguments) {
    PyObject *entries;
    Py_ssize_t index, most;
    int refuse_transactions;
    if (!PyArg_ParseTuple(arguments, "O!nnp:decode", &PyList_Type, &entries, &index, &most, &refuse_transactions)) {
        return NULL;
    }
    if (index < 0) {
        PyErr_SetString(PyExc_ValueError, "start is below 0");
        return NULL;
    }
    while (index < PyList_GET_SIZE(entries)) {
        PyObject *entry = PyList_GET_ITEM(entries, index);
        if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) < 5) {
            PyErr_SetString(PyExc_TypeError, "entries holds something else than entries");
            return NULL;
        }
        Py_buffer view;
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(entry, 4), &view, PyBUF_SIMPLE) < 0) {
            return NULL;
        }
        Text payload = {view.buf, (size_t)view.len};
        Outcome outcome =
            decode_entry(self, PyTuple_GET_ITEM(entry, 0), PyTuple_GET_ITEM(entry, 1), payload, refuse_transactions);
        PyBuffer_Release(&view);
        if (outcome == FAILED) {
            return NULL;
        }
        if (outcome == UNUSUAL) {
            break;
        }
        index++;
        if (self->size >= most) {
            break;
        }
    }
    return PyLong_FromSsize_t(index);
}

static PyObject *rows_batch(Rows *self, PyObject *arguments) {
    Py_buffer view;
    long long count, first_sequence_id;
    if (!PyArg_ParseTuple(arguments, "y*LL:batch", &view, &count, &first_sequence_id)) {
        return NULL;
    }
    Columns before = self->columns;
    Outcome outcome = UNUSUAL;
    if (count > 0) {
        outcome = append_batch(self, (Text){view.buf, (size_t)view.len}, (uint64_t)count, first_sequence_id);
    }
    PyBuffer_Release(&view);
    if (outcome != TAKEN) {
        columns_cut(&self->columns, &before);
    }
    return outcome == FAILED ? NULL : PyBool_FromLong(outcome == TAKEN);
}

/* Bytes or None; false, and the error is set, for anything else. */
static bool text_of(PyObject *object, Text *text) {
    *text = (Text){0};
    if (object == Py_None) {
        return true;
    }
    if (!PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "bytes or None are expected");
        return false;
    }
    *text = (Text){(const uint8_t *)PyBytes_AS_STRING(object), (size_t)PyBytes_GET_SIZE(object)};
    return true;
}

static Outcome append_pairs(Columns *columns, PyObject *properties, Py_ssize_t *bytes) {
    PyObject *key, *value;
    Py_ssize_t place = 0;
    while (PyDict_Next(properties, &place, &key, &value)) {
        Py_ssize_t key_size, value_size;
        const char *key_at = PyUnicode_AsUTF8AndSize(key, &key_size);
        const char *value_at = key_at ? PyUnicode_AsUTF8AndSize(value, &value_size) : NULL;
        size_t row = columns->property_keys.filled;
        if (!value_at || !texts_append(&columns->property_keys, row, (Text){(const uint8_t *)key_at, (size_t)key_size}) ||
            !texts_append(&columns->property_values, row, (Text){(const uint8_t *)value_at, (size_t)value_size})) {
            return FAILED;
        }
        *bytes += key_size + value_size;
    }
    return properties_end(columns) ? TAKEN : FAILED;
}

static PyObject *rows_append(Rows *self, PyObject *arguments) {
    PyObject *value_object, *key_object, *ordering_key_object, *properties;
    int index;
    long long event_time, sequence_id;
    Text value, key, ordering_key;
    if (!PyArg_ParseTuple(arguments, "OiOOO!LL:append", &value_object, &index, &key_object, &ordering_key_object,
                          &PyDict_Type, &properties, &event_time, &sequence_id) ||
        !text_of(value_object, &value) || !text_of(key_object, &key) || !text_of(ordering_key_object, &ordering_key)) {
        return NULL;
    }
    Columns before = self->columns;
    Py_ssize_t bytes = self->size;
    Single single = {.key = key, .ordering_key = ordering_key, .event_time = event_time, .null_value = !value.at};
    bool failed = self->with & WITH_PROPERTIES && PyDict_GET_SIZE(properties) &&
                  append_pairs(&self->columns, properties, &self->size) == FAILED;
    failed = failed || append_message(self, &single, (Text){0}, 0, value, index, sequence_id) == FAILED;
    if (failed) {
        columns_cut(&self->columns, &before);
        self->size = bytes;
        return NULL;
    }
    self->size += (Py_ssize_t)value.size + (self->with & WITH_KEYS ? (Py_ssize_t)key.size : 0);
    Py_RETURN_NONE;
}

static PyObject *rows_entry(Rows *self, PyObject *facts) {
    if (!PyTuple_Check(facts)) {
        PyErr_SetString(PyExc_TypeError, "facts are a tuple");
        return NULL;
    }
    if (self->columns.rows > self->entered && !end_entry(self, facts)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Offsets of the map column, keys and values; None where no row has a property. */
static PyObject *take_properties(Columns *columns) {
    size_t rows = columns->rows, pairs = columns->property_keys.filled;
    if (!pairs) {
        return Py_NewRef(Py_None);
    }
    Buffer offsets = {0};
    if (!make_room(&offsets, (rows + 1) * sizeof(int32_t))) {
        return NULL;
    }
    const int64_t *ends = (const int64_t *)columns->property_ends.data.at;
    int32_t *out = (int32_t *)offsets.at;
    out[0] = 0;
    for (size_t row = 0; row < rows; row++) {
        out[row + 1] = row < columns->property_ends.filled ? (int32_t)ends[row] : (int32_t)pairs;
    }
    offsets.size = (rows + 1) * sizeof(int32_t);
    PyObject *starts = as_block(&offsets);
    PyObject *keys = starts ? take_texts(&columns->property_keys, pairs) : NULL;
    PyObject *values = keys ? take_texts(&columns->property_values, pairs) : NULL;
    PyObject *found = values ? Py_BuildValue("nOOO", (Py_ssize_t)pairs, starts, keys, values) : NULL;
    Py_XDECREF(starts);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    give_back(&offsets);
    return found;
}

/* For each row the number of its entry; None where each entry has one row. */
static PyObject *take_spread(Rows *self) {
    size_t entries = self->counts.size / sizeof(int32_t);
    if (entries == self->entered) {
        return Py_NewRef(Py_None);
    }
    Buffer spread = {0};
    if (!make_room(&spread, self->entered * sizeof(int32_t))) {
        return NULL;
    }
    const int32_t *counts = (const int32_t *)self->counts.at;
    int32_t *out = (int32_t *)spread.at;
    for (size_t entry = 0; entry < entries; entry++) {
        for (int32_t row = 0; row < counts[entry]; row++) {
            *out++ = (int32_t)entry;
        }
    }
    spread.size = self->entered * sizeof(int32_t);
    PyObject *block = as_block(&spread);
    give_back(&spread);
    return block;
}

static PyObject *rows_take(Rows *self, PyObject *Py_UNUSED(nothing)) {
    Columns *columns = &self->columns;
    size_t rows = columns->rows;
    if (rows != self->entered) {
        PyErr_SetString(PyExc_ValueError, "rows whose entry was not told");
        return NULL;
    }
    PyObject *empty = PyList_New(0), *found = NULL;
    PyObject *parts[9] = {0};
    if (empty) {
        parts[0] = take_spread(self);
        parts[1] = PyBool_FromLong(columns->outside);
        parts[2] = as_block(&columns->batch_indexes);
        parts[3] = take_texts(&columns->values, rows);
        parts[4] = take_texts(&columns->keys, rows);
        parts[5] = take_texts(&columns->ordering_keys, rows);
        parts[6] = take_properties(columns);
        parts[7] = take_times(&columns->event_times, rows);
        parts[8] = as_block(&columns->sequence_ids.data);
        bool complete = true;
        for (int index = 0; index < 9; index++) {
            complete = complete && parts[index];
        }
        if (complete) {
            found = Py_BuildValue("nOOOOOOOOOO", (Py_ssize_t)rows, self->facts, parts[0], parts[1], parts[2], parts[3],
                                  parts[4], parts[5], parts[6], parts[7], parts[8]);
        }
    }
    for (int index = 0; index < 9; index++) {
        Py_XDECREF(parts[index]);
    }
    if (!empty) {
        return NULL;
    }
    Py_SETREF(self->facts, empty);
    columns_free(columns);
    self->counts.size = self->entered = 0;
    self->size = 0;
    return found;
}

static PyObject *rows_get_count(Rows *self, void *Py_UNUSED(closure)) { return PyLong_FromSize_t(self->entered); }

static PyObject *rows_get_size(Rows *self, void *Py_UNUSED(closure)) { return PyLong_FromSsize_t(self->size); }

static PyMethodDef rows_methods[] = {
    {"decode", (PyCFunction)rows_decode, METH_VARARGS, "Take usual entries."},
    {"batch", (PyCFunction)rows_batch, METH_VARARGS, "Take the messages of a batch, if it is a usual one."},
    {"append", (PyCFunction)rows_append, METH_VARARGS, "Take one message."},
    {"entry", (PyCFunction)rows_entry, METH_O, "Tell of the entry of the rows since the last call."},
    {"take", (PyCFunction)rows_take, METH_NOARGS, "Give out all rows, and begin anew."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef rows_getters[] = {
    {"count", (getter)rows_get_count, NULL, "Rows of entries that are complete.", NULL},
    {"size", (getter)rows_get_size, NULL, "What they take in bytes, about.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_doc, "Messages as columns; see rows.py."},
    {Py_tp_new, rows_new},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_methods, rows_methods},
    {Py_tp_getset, rows_getters},
    {0, NULL},
};

static PyType_Spec rows_spec = {
    .name = "readonly_spark.rows._decode.Rows",
    .basicsize = sizeof(Rows),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = rows_slots,
};

static PyMethodDef functions[] = {
    {"message_ids", message_ids, METH_VARARGS, "Message ids of rows in batches, as text."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    crc32c_prepare();
    if (!block_type) {
        block_type = (PyTypeObject *)PyType_FromSpec(&block_spec);
    }
    PyObject *rows = block_type ? PyType_FromSpec(&rows_spec) : NULL;
    int failed = rows ? PyModule_AddObjectRef(module, "Rows", rows) : -1;
    Py_XDECREF(rows);
    return failed;
}

static struct PyModuleDef_Slot slots[] = {
    {Py_mod_exec, prepare},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "readonly_spark.rows._decode",
    .m_doc = "From entries to columns, in C.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__decode(void) { return PyModuleDef_Init(&module); }

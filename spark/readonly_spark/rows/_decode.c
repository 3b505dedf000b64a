/* Entries to columns in C: the row builder for the simple entries that make up most topics (see builder.py).

   `append_entries` takes simple entries: not encrypted, chunked or compressed, no marker, and with known, valid fields only. It
   stops at any other entry and appends nothing of it; Python decodes that entry. So one place decides what is skipped and what
   is an error. No function reads beyond the entry that it was given. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_columns.h"
#include "_ids.h"
#include "_metadata.h"
#include "_wire.h"

/* The builder */

enum { WITH_VALUES = 1, WITH_KEYS = 2, WITH_PROPERTIES = 4, WITH_TIMES = 8, WITH_SEQUENCE = 16 };
enum { ROW_BYTES = 96, MAX_PROPERTIES = 64 };

typedef struct {
    Texts values, keys, ordering_keys, property_keys, property_values;
    Numbers property_ends, event_times, sequence_ids;
    Buffer batch_indexes;
    size_t rows;
    bool unbatched; /* a row is not in a batch */
} Columns;

typedef struct {
    PyObject_HEAD
    Columns columns;
    Buffer counts; /* rows of each ended entry */
    PyObject *headers;
    size_t ended; /* rows of the ended entries */
    Py_ssize_t size;
    unsigned with;
} RowBuilder;

typedef enum { FAILED = -1, NOT_SIMPLE = 0, TAKEN = 1 } Outcome;

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
    columns->unbatched = before->unbatched;
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
    columns->unbatched = false;
}

/* Append the properties of the next row: the fields of its metadata with this tag. The last of equal keys wins. */
static Outcome append_properties(Columns *columns, const uint8_t *at, const uint8_t *end, uint64_t wanted) {
    Text keys[MAX_PROPERTIES], values[MAX_PROPERTIES];
    size_t count = 0;
    while (at < end) {
        uint64_t tag, number;
        Text key, value;
        if (!load_varint(&at, end, &tag)) {
            return NOT_SIMPLE;
        }
        if (tag != wanted) {
            if (!((tag & 7) == VARINT ? load_varint(&at, end, &number) : (tag & 7) == LENGTH && load_text(&at, end, &key))) {
                return NOT_SIMPLE;
            }
            continue;
        }
        if (!load_property(&at, end, &key, &value) || !is_utf8(key) || !is_utf8(value)) {
            return NOT_SIMPLE;
        }
        size_t place = 0;
        while (place < count && (keys[place].size != key.size || memcmp(keys[place].at, key.at, key.size))) {
            place++;
        }
        if (place == MAX_PROPERTIES) {
            return NOT_SIMPLE;
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

/* `property_ends` holds the end of each row's properties up to row `filled`; later rows have none and end there too. */
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
    columns->unbatched = columns->unbatched || index < 0;
    return true;
}

/* Append the key, decoded from base64. */
static Outcome append_key(Columns *columns, const Single *single) {
    if (!single->key_in_base64) {
        return texts_append(&columns->keys, columns->rows, single->key) ? TAKEN : FAILED;
    }
    Py_ssize_t size = base64_size(single->key);
    if (size < 0) {
        return NOT_SIMPLE;
    }
    uint8_t *at = texts_room(&columns->keys, columns->rows, (size_t)size);
    return !at ? FAILED : base64_decode(single->key, at, (size_t)size) ? TAKEN : NOT_SIMPLE;
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

/* Append one message; `head` is its metadata, in which properties have this tag. */
static Outcome append_message(
    RowBuilder *self, const Single *single, Text head, uint64_t property_tag, Text value, int32_t index, int64_t sequence_id) {
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
        return NOT_SIMPLE;
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

/* Load the metadata of a batched message with only a size and perhaps a sequence id, as most have. */
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

/* Append the messages of a batch. If it is not simple, the caller removes the rows that were appended. */
static Outcome append_batch(RowBuilder *self, Text body, uint64_t count, int64_t first_sequence_id) {
    if (!count || count > body.size / 4) {
        return NOT_SIMPLE;
    }
    const uint8_t *at = body.at, *end = body.at + body.size;
    for (uint64_t index = 0; index < count; index++) {
        if (end - at < 4) {
            return NOT_SIMPLE;
        }
        uint32_t size = load_u32(at);
        at += 4;
        if (size > (uint64_t)(end - at)) {
            return NOT_SIMPLE;
        }
        Text head = {at, size};
        at += size;
        Single single = {0};
        if (!load_plain(head.at, at, &single) && !load_single(head.at, at, &single)) {
            return NOT_SIMPLE;
        }
        if (single.payload_size > (uint64_t)(end - at)) {
            return NOT_SIMPLE;
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

/* End an entry: the rows since the last one belong to it. */
static bool end_entry(RowBuilder *self, PyObject *header) {
    size_t count = self->columns.rows - self->ended;
    int32_t number = (int32_t)count;
    if (!make_room(&self->counts, sizeof number) || PyList_Append(self->headers, header) < 0) {
        return false;
    }
    memcpy(self->counts.at + self->counts.size, &number, sizeof number);
    self->counts.size += sizeof number;
    self->ended = self->columns.rows;
    self->size += (Py_ssize_t)(count * ROW_BYTES);
    return true;
}

static PyObject *text_or_none(Text text) {
    return text.at ? PyUnicode_DecodeUTF8((const char *)text.at, (Py_ssize_t)text.size, "replace") : Py_NewRef(Py_None);
}

enum { HEADER_FIELDS = 10 }; /* of EntryHeader */

static PyObject *entry_header(PyObject *ledger_id, PyObject *entry_id, const Metadata *metadata) {
    PyObject *items[HEADER_FIELDS] = {
        Py_NewRef(ledger_id),
        Py_NewRef(entry_id),
        metadata->batched ? PyLong_FromUnsignedLongLong(metadata->messages) : Py_NewRef(Py_None),
        PyLong_FromLongLong(metadata->publish_time),
        PyLong_FromLongLong(metadata->broker_time),
        PyLong_FromLongLong(metadata->index),
        text_or_none(metadata->producer_name),
        metadata->schema_version.at ? PyBytes_FromStringAndSize((const char *)metadata->schema_version.at,
                                                                (Py_ssize_t)metadata->schema_version.size)
                                    : Py_NewRef(Py_None),
        text_or_none(metadata->replicated_from),
        Py_NewRef(Py_None), /* encryption */
    };
    bool complete = true;
    for (int index = 0; index < HEADER_FIELDS; index++) {
        complete = complete && items[index];
    }
    PyObject *header = complete ? PyTuple_New(HEADER_FIELDS) : NULL;
    for (Py_ssize_t index = 0; index < HEADER_FIELDS; index++) {
        if (header) {
            PyTuple_SET_ITEM(header, index, items[index]);
        } else {
            Py_XDECREF(items[index]);
        }
    }
    return header;
}

/* Append one entry; append nothing of an entry that is not simple. */
static Outcome decode_entry(RowBuilder *self, PyObject *ledger_id, PyObject *entry_id, Text payload, bool refuse_transactions) {
    const uint8_t *at = payload.at, *end = payload.at + payload.size;
    Metadata metadata = {.index = -1};
    if (end - at >= 6 && at[0] == 0x0E && at[1] == 0x02) {
        uint32_t size = load_u32(at + 2);
        at += 6;
        if (size > (uint64_t)(end - at) || !load_broker_metadata(at, at + size, &metadata)) {
            return NOT_SIMPLE;
        }
        at += size;
    }
    if (end - at >= 6 && at[0] == 0x0E && at[1] == 0x01) {
        if (crc32c(0, at + 6, (size_t)(end - at - 6)) != load_u32(at + 2)) {
            return NOT_SIMPLE;
        }
        at += 6;
    }
    if (end - at < 4 || load_u32(at) > (uint64_t)(end - at - 4)) {
        return NOT_SIMPLE;
    }
    Text head = {at + 4, load_u32(at)};
    Text body = {head.at + head.size, (size_t)(end - head.at) - head.size};
    if (!load_metadata(head.at, body.at, &metadata) || (metadata.transaction && refuse_transactions)) {
        return NOT_SIMPLE;
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
    if (outcome == TAKEN && self->columns.rows > self->ended) {
        PyObject *header = entry_header(ledger_id, entry_id, &metadata);
        if (!header || !end_entry(self, header)) {
            outcome = FAILED;
        }
        Py_XDECREF(header);
    }
    if (outcome != TAKEN) {
        columns_cut(&self->columns, &before);
        self->size = bytes;
    }
    return outcome;
}

/* Methods */

static PyObject *builder_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"values", "keys", "properties", "times", "sequence", NULL};
    int values, keys, properties, times, sequence;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "$ppppp:RowBuilder", names, &values, &keys, &properties, &times, &sequence)) {
        return NULL;
    }
    RowBuilder *self = (RowBuilder *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->with = (values ? WITH_VALUES : 0) | (keys ? WITH_KEYS : 0) | (properties ? WITH_PROPERTIES : 0) |
                 (times ? WITH_TIMES : 0) | (sequence ? WITH_SEQUENCE : 0);
    self->headers = PyList_New(0);
    if (!self->headers) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void builder_dealloc(RowBuilder *self) {
    PyTypeObject *type = Py_TYPE(self);
    columns_free(&self->columns);
    give_back(&self->counts);
    Py_XDECREF(self->headers);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *builder_append_entries(RowBuilder *self, PyObject *arguments) {
    PyObject *entries;
    Py_ssize_t index, max_bytes;
    int refuse_transactions;
    if (!PyArg_ParseTuple(arguments, "O!nnp:append_entries", &PyList_Type, &entries, &index, &max_bytes, &refuse_transactions)) {
        return NULL;
    }
    if (index < 0) {
        PyErr_SetString(PyExc_ValueError, "start must be 0 or more");
        return NULL;
    }
    while (index < PyList_GET_SIZE(entries)) {
        PyObject *entry = PyList_GET_ITEM(entries, index);
        if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) < 5) {
            PyErr_SetString(PyExc_TypeError, "entries must be a list of Entry");
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
        if (outcome == NOT_SIMPLE) {
            break;
        }
        index++;
        if (self->size >= max_bytes) {
            break;
        }
    }
    return PyLong_FromSsize_t(index);
}

static PyObject *builder_append_batch(RowBuilder *self, PyObject *arguments) {
    Py_buffer view;
    long long count, first_sequence_id;
    if (!PyArg_ParseTuple(arguments, "y*LL:append_batch", &view, &count, &first_sequence_id)) {
        return NULL;
    }
    Columns before = self->columns;
    Outcome outcome = NOT_SIMPLE;
    if (count > 0) {
        outcome = append_batch(self, (Text){view.buf, (size_t)view.len}, (uint64_t)count, first_sequence_id);
    }
    PyBuffer_Release(&view);
    if (outcome != TAKEN) {
        columns_cut(&self->columns, &before);
    }
    return outcome == FAILED ? NULL : PyBool_FromLong(outcome == TAKEN);
}

/* Load bytes or None; for anything else set an error and return false. */
static bool text_of(PyObject *object, Text *text) {
    *text = (Text){0};
    if (object == Py_None) {
        return true;
    }
    if (!PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "bytes or None expected");
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

static PyObject *builder_append_message(RowBuilder *self, PyObject *arguments) {
    PyObject *value_object, *key_object, *ordering_key_object, *properties;
    int index;
    long long event_time, sequence_id;
    Text value, key, ordering_key;
    if (!PyArg_ParseTuple(arguments, "OiOOO!LL:append_message", &value_object, &index, &key_object, &ordering_key_object,
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

static PyObject *builder_end_entry(RowBuilder *self, PyObject *header) {
    if (!PyTuple_Check(header)) {
        PyErr_SetString(PyExc_TypeError, "header must be a tuple");
        return NULL;
    }
    if (self->columns.rows > self->ended && !end_entry(self, header)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Offsets of the map column, keys and values; None if no row has properties. */
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

/* For each row the index of its entry; None if every entry has one row. */
static PyObject *take_entry_of_row(RowBuilder *self) {
    size_t entries = self->counts.size / sizeof(int32_t);
    if (entries == self->ended) {
        return Py_NewRef(Py_None);
    }
    Buffer spread = {0};
    if (!make_room(&spread, self->ended * sizeof(int32_t))) {
        return NULL;
    }
    const int32_t *counts = (const int32_t *)self->counts.at;
    int32_t *out = (int32_t *)spread.at;
    for (size_t entry = 0; entry < entries; entry++) {
        for (int32_t row = 0; row < counts[entry]; row++) {
            *out++ = (int32_t)entry;
        }
    }
    spread.size = self->ended * sizeof(int32_t);
    PyObject *block = as_block(&spread);
    give_back(&spread);
    return block;
}

static PyObject *builder_finish(RowBuilder *self, PyObject *Py_UNUSED(nothing)) {
    Columns *columns = &self->columns;
    size_t rows = columns->rows;
    if (rows != self->ended) {
        PyErr_SetString(PyExc_ValueError, "rows of an entry that was not ended");
        return NULL;
    }
    PyObject *empty = PyList_New(0), *found = NULL;
    PyObject *parts[9] = {0};
    if (empty) {
        parts[0] = take_entry_of_row(self);
        parts[1] = PyBool_FromLong(columns->unbatched);
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
            found = Py_BuildValue("nOOOOOOOOOO", (Py_ssize_t)rows, self->headers, parts[0], parts[1], parts[2], parts[3],
                                  parts[4], parts[5], parts[6], parts[7], parts[8]);
        }
    }
    for (int index = 0; index < 9; index++) {
        Py_XDECREF(parts[index]);
    }
    if (!empty) {
        return NULL;
    }
    Py_SETREF(self->headers, empty);
    columns_free(columns);
    self->counts.size = self->ended = 0;
    self->size = 0;
    return found;
}

static PyObject *builder_get_count(RowBuilder *self, void *Py_UNUSED(closure)) { return PyLong_FromSize_t(self->ended); }

static PyObject *builder_get_size(RowBuilder *self, void *Py_UNUSED(closure)) { return PyLong_FromSsize_t(self->size); }

static PyMethodDef builder_methods[] = {
    {"append_entries", (PyCFunction)builder_append_entries, METH_VARARGS, "Append simple entries."},
    {"append_batch", (PyCFunction)builder_append_batch, METH_VARARGS, "Append the messages of a batch, if it is simple."},
    {"append_message", (PyCFunction)builder_append_message, METH_VARARGS, "Append one message."},
    {"end_entry", (PyCFunction)builder_end_entry, METH_O, "Set the header of the messages since the last call."},
    {"finish", (PyCFunction)builder_finish, METH_NOARGS, "Return all rows, and start anew."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef builder_getters[] = {
    {"count", (getter)builder_get_count, NULL, "Rows of the entries that were ended.", NULL},
    {"size", (getter)builder_get_size, NULL, "Estimated bytes of these rows.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot builder_slots[] = {
    {Py_tp_doc, "Collect messages as columns; see builder.py."},
    {Py_tp_new, builder_new},
    {Py_tp_dealloc, builder_dealloc},
    {Py_tp_methods, builder_methods},
    {Py_tp_getset, builder_getters},
    {0, NULL},
};

static PyType_Spec builder_spec = {
    .name = "readonly_spark.rows._decode.RowBuilder",
    .basicsize = sizeof(RowBuilder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = builder_slots,
};

static PyMethodDef functions[] = {
    {"message_ids", message_ids, METH_VARARGS, "Return the message ids of batched messages as text."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    crc32c_prepare();
    PyObject *rows = blocks_prepare() ? PyType_FromSpec(&builder_spec) : NULL;
    int failed = rows ? PyModule_AddObjectRef(module, "RowBuilder", rows) : -1;
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
    .m_doc = "Entries to columns in C.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__decode(void) { return PyModuleDef_Init(&module); }

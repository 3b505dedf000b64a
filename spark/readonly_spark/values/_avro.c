/* Avro payloads to Arrow columns; see native_avro.py. The encoding is that of Avro's specification 1.12, "Binary Encoding".

   A program of nodes walks one payload in the order of its writer's schema. Each node reads one value and appends it to a column,
   or checks and skips it. What is not valid, or what Python's decoder might read otherwise, ends the decoding without a
   result: Python then decodes the same payloads, and gives the error. */

#define BLOCK_NAME "readonly_spark.values._avro.Block"
#include "_avro_columns.h"

enum {
    NONE = -1,        /* no column: check the value, and skip it */
    MOST_NODES = 65536,
    LONG_BITS = 63,
};

/* Nulls of one record batch: a null of an array's records is one byte of a payload, and a null in each of their columns. */
static const int64_t MOST_NULLS = (int64_t)1 << 27;

/* Kinds of nodes. `argument` and `more` are: the size of FIXED; first symbol and number of symbols of ENUM; the branch of null and
   whether null is refused of OPTION; the size (0 for bytes) and the precision of DECIMAL. */
enum {
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM, RECORD, ARRAY, MAP, OPTION, UNION, NOTHING, ABSENT, DATE,
    MILLIS, MICROS, DECIMAL, NODE_KINDS
};

/* The years 1 to 9999, as Python has them. */
static const int64_t FIRST_DAY = -719162, LAST_DAY = 2932896;
static const int64_t FIRST_MICROS = -62135596800000000, LAST_MICROS = 253402300799999999;

typedef struct {
    int kind;
    int column;
    int end;          /* index after the nodes below this one */
    int64_t argument, more;
} Node;

typedef struct {
    PyObject_HEAD
    Node *nodes;
    Column *columns;
    Py_ssize_t node_count, column_count;
    int64_t nulls;     /* of this record batch */
    PyObject *symbols; /* tuple of bytes */
} Decoder;

typedef struct {
    const uint8_t *at, *end;
} Cursor;

/* Columns of a decoder. */

static bool put_null(Decoder *self, int index) {
    Column *column = &self->columns[index];
    size_t size = width(column->kind);
    if (size) {
        if (!make_room(&column->data, size)) {
            return false;
        }
        memset(column->data.at + column->data.size, 0, size);
        column->data.size += size;
    } else if (column->kind == TEXTS) {
        if (!put_end(column, column->data.size)) {
            return false;
        }
    } else if (column->kind == LISTS) {
        if (!put_end(column, self->columns[index + 1].rows)) {
            return false;
        }
    } else {
        for (int child = index + 1; child < column->end; child = self->columns[child].end) {
            if (!put_null(self, child)) {
                return false;
            }
        }
    }
    return mark(column, false);
}

/* Append a null to a column and to those below it, as far as the memory for them has a bound. */
static bool add_null(Decoder *self, int index) {
    self->nulls += self->columns[index].end - index;
    if (self->nulls > MOST_NULLS) {
        PyErr_SetString(PyExc_OverflowError,
                        "the columns of one record batch have more than 134,217,728 nulls; set a smaller batchBytes");
        return false;
    }
    return put_null(self, index);
}

static void forget(Decoder *self) {
    self->nulls = 0;
    for (Py_ssize_t index = 0; index < self->column_count; index++) {
        Column *column = &self->columns[index];
        give_back(&column->data);
        give_back(&column->offsets);
        give_back(&column->valid);
        column->rows = column->nulls = 0;
    }
}

/* Payloads. These return false if the value is not valid, and if an error is set. */

static bool read_long(Cursor *cursor, int64_t *found) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift <= LONG_BITS && cursor->at < cursor->end; shift += 7) {
        uint8_t byte = *cursor->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *found = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
            return shift < LONG_BITS || byte <= 1;
        }
    }
    return false;
}

static bool read_size(Cursor *cursor, size_t *size) {
    int64_t found;
    if (!read_long(cursor, &found) || found < 0 || found > cursor->end - cursor->at) {
        return false;
    }
    *size = (size_t)found;
    return true;
}

static bool is_utf8(const uint8_t *text, size_t size) {
    uint64_t part, high = 0;
    size_t done = 0;
    for (; done + sizeof part <= size; done += sizeof part) {
        memcpy(&part, text + done, sizeof part);
        high |= part;
    }
    for (; done < size; done++) {
        high |= text[done];
    }
    if (!(high & 0x8080808080808080u)) {
        return true;
    }
    PyObject *decoded = PyUnicode_DecodeUTF8((const char *)text, (Py_ssize_t)size, NULL);
    if (!decoded) {
        PyErr_Clear();
        return false;
    }
    Py_DECREF(decoded);
    return true;
}

static bool put_integer(Column *column, int64_t value) {
    if (column->kind == INT32S) {
        int32_t narrow = (int32_t)value;
        return put(column, &narrow, sizeof narrow);
    }
    return put(column, &value, sizeof value);
}

static bool read_integer(const Node *node, Cursor *cursor, Column *column) {
    int64_t value;
    if (!read_long(cursor, &value)) {
        return false;
    }
    switch (node->kind) {
    case INT:
        if (value < INT32_MIN || value > INT32_MAX) {
            return false;
        }
        break;
    case DATE:
        if (value < FIRST_DAY || value > LAST_DAY) {
            return false;
        }
        break;
    case MILLIS:
        if (value < FIRST_MICROS / 1000 || value > LAST_MICROS / 1000) {
            return false;
        }
        value *= 1000;
        break;
    case MICROS:
        if (value < FIRST_MICROS || value > LAST_MICROS) {
            return false;
        }
        break;
    default:
        break;
    }
    return !column || put_integer(column, value);
}

static bool read_real(const Node *node, Cursor *cursor, Column *column) {
    size_t size = node->kind == FLOAT ? sizeof(float) : sizeof(double);
    if ((size_t)(cursor->end - cursor->at) < size) {
        return false;
    }
    const uint8_t *at = cursor->at;
    cursor->at += size;
    if (!column) {
        return true;
    }
    uint64_t bits = 0;
    for (size_t index = 0; index < size; index++) {
        bits |= (uint64_t)at[index] << 8 * index;
    }
    if (node->kind == DOUBLE) {
        return put(column, &bits, sizeof bits);
    }
    uint32_t narrow = (uint32_t)bits;
    if (column->kind == FLOATS) {
        return put(column, &narrow, sizeof narrow);
    }
    float single;
    memcpy(&single, &narrow, sizeof single);
    double wide = single;
    return put(column, &wide, sizeof wide);
}

/* A signed number, big endian, of fewer digits than 10 ** precision. */
static bool read_decimal(const Node *node, Cursor *cursor, Column *column) {
    size_t size = (size_t)node->argument;
    if (!size && !read_size(cursor, &size)) {
        return false;
    }
    if (!size || size > DECIMAL_BYTES || size > (size_t)(cursor->end - cursor->at)) {
        return false;
    }
    unsigned __int128 bits = *cursor->at & 0x80 ? ~(unsigned __int128)0 : 0;
    for (size_t index = 0; index < size; index++) {
        bits = bits << 8 | *cursor->at++;
    }
    __int128 value = (__int128)bits, most = 1;
    for (int64_t digit = 0; digit < node->more; digit++) {
        most *= 10;
    }
    if (value >= most || value <= -most) {
        return false;
    }
    return !column || put(column, &value, sizeof value);
}

static bool read_text(Decoder *self, const Node *node, Cursor *cursor, Column *column) {
    const uint8_t *text;
    size_t size;
    if (node->kind == ENUM) {
        int64_t number;
        if (!read_long(cursor, &number) || number < 0 || number >= node->more) {
            return false;
        }
        PyObject *symbol = PyTuple_GET_ITEM(self->symbols, node->argument + number);
        text = (const uint8_t *)PyBytes_AS_STRING(symbol);
        size = (size_t)PyBytes_GET_SIZE(symbol);
        return !column || put_text(column, text, size);
    }
    if (node->kind == FIXED) {
        size = (size_t)node->argument;
        if (size > (size_t)(cursor->end - cursor->at)) {
            return false;
        }
    } else if (!read_size(cursor, &size)) {
        return false;
    }
    text = cursor->at;
    cursor->at += size;
    if (node->kind == STRING && !is_utf8(text, size)) {
        return false;
    }
    return !column || put_text(column, text, size);
}

static bool read_value(Decoder *self, int index, Cursor *cursor);

/* Blocks of items, each with its count; after a negative count there is the size of the block. */
static bool read_blocks(Decoder *self, int index, Cursor *cursor) {
    const Node *node = &self->nodes[index];
    for (;;) {
        int64_t count, size;
        if (!read_long(cursor, &count)) {
            return false;
        }
        if (!count) {
            return true;
        }
        if (count < 0) {
            if (count < -INT32_MAX || !read_long(cursor, &size)) {
                return false;
            }
            count = -count;
        }
        if (count > cursor->end - cursor->at) {
            return false; /* an item without bytes would let a short payload fill the memory */
        }
        for (; count; count--) {
            size_t key;
            if (node->kind == MAP) {
                if (!read_size(cursor, &key) || !is_utf8(cursor->at, key)) {
                    return false;
                }
                cursor->at += key;
            }
            if (!read_value(self, index + 1, cursor)) {
                return false;
            }
        }
    }
}

static bool read_option(Decoder *self, int index, Cursor *cursor) {
    const Node *node = &self->nodes[index];
    int64_t branch;
    if (!read_long(cursor, &branch) || branch < 0 || branch > 1) {
        return false;
    }
    if (branch != node->argument) {
        return read_value(self, index + 1, cursor);
    }
    return !node->more && (node->column == NONE || add_null(self, node->column));
}

static bool read_union(Decoder *self, int index, Cursor *cursor) {
    int64_t branch;
    if (!read_long(cursor, &branch) || branch < 0) {
        return false;
    }
    for (int child = index + 1; child < self->nodes[index].end; child = self->nodes[child].end) {
        if (!branch--) {
            return read_value(self, child, cursor);
        }
    }
    return false;
}

static bool read_value(Decoder *self, int index, Cursor *cursor) {
    const Node *node = &self->nodes[index];
    Column *column = node->column == NONE ? NULL : &self->columns[node->column];
    switch (node->kind) {
    case BOOLEAN:
        if (cursor->at == cursor->end || *cursor->at > 1) {
            return false;
        }
        cursor->at++;
        return !column || put(column, cursor->at - 1, 1);
    case INT: case LONG: case DATE: case MILLIS: case MICROS:
        return read_integer(node, cursor, column);
    case FLOAT: case DOUBLE:
        return read_real(node, cursor, column);
    case BYTES: case STRING: case FIXED: case ENUM:
        return read_text(self, node, cursor, column);
    case DECIMAL:
        return read_decimal(node, cursor, column);
    case RECORD:
        for (int child = index + 1; child < node->end; child = self->nodes[child].end) {
            if (!read_value(self, child, cursor)) {
                return false;
            }
        }
        return !column || mark(column, true);
    case ARRAY: case MAP:
        if (!read_blocks(self, index, cursor)) {
            return false;
        }
        return !column || (put_end(column, self->columns[node->column + 1].rows) && mark(column, true));
    case OPTION:
        return read_option(self, index, cursor);
    case UNION:
        return read_union(self, index, cursor);
    case NOTHING:
        return true;
    case ABSENT:
        return add_null(self, node->column);
    default:
        PyErr_SetString(PyExc_SystemError, "an unknown node");
        return false;
    }
}

/* Results. */

/* Rows, nulls, bitmap, offsets and data of a column; None for those that it has not. */
static PyObject *take(Column *column) {
    PyObject *valid = NULL, *offsets = NULL, *data = NULL, *found = NULL;
    bool listed = column->kind == LISTS || column->kind == TEXTS;
    if (listed && !column->offsets.size) {
        if (!make_room(&column->offsets, sizeof(int32_t))) {
            return NULL;
        }
        memset(column->offsets.at, 0, sizeof(int32_t));
        column->offsets.size = sizeof(int32_t);
    }
    valid = column->nulls ? bitmap(column->valid.at, column->rows) : Py_NewRef(Py_None);
    if (valid) {
        offsets = listed ? as_block(&column->offsets) : Py_NewRef(Py_None);
    }
    if (offsets && column->kind == BOOLS && column->rows) {
        data = bitmap(column->data.at, column->rows);
    } else if (offsets) {
        data = column->kind == STRUCTS || column->kind == LISTS ? Py_NewRef(Py_None) : as_block(&column->data);
    }
    if (data) {
        found = Py_BuildValue("nnOOO", (Py_ssize_t)column->rows, (Py_ssize_t)column->nulls, valid, offsets, data);
    }
    Py_XDECREF(valid);
    Py_XDECREF(offsets);
    Py_XDECREF(data);
    return found;
}

/* Arrow reads the memory of a column as far as its parent's rows say. */
static bool complete(Decoder *self, int index, size_t rows) {
    Column *column = &self->columns[index];
    if (column->rows != rows) {
        PyErr_SetString(PyExc_SystemError, "a column of another length");
        return false;
    }
    if (column->kind == LISTS) {
        return complete(self, index + 1, self->columns[index + 1].rows);
    }
    for (int child = index + 1; child < column->end; child = self->columns[child].end) {
        if (!complete(self, child, rows)) {
            return false;
        }
    }
    return true;
}

static PyObject *results(Decoder *self, size_t rows) {
    if (!complete(self, 0, rows)) {
        return NULL;
    }
    PyObject *found = PyList_New(self->column_count);
    for (Py_ssize_t index = 0; found && index < self->column_count; index++) {
        PyObject *one = take(&self->columns[index]);
        if (!one) {
            Py_CLEAR(found);
        } else {
            PyList_SET_ITEM(found, index, one);
        }
    }
    return found;
}

static PyObject *decoder_decode(Decoder *self, PyObject *args) {
    Py_buffer offsets, data, valid = {0};
    PyObject *bits;
    Py_ssize_t first, rows;
    if (!PyArg_ParseTuple(args, "y*y*Onn", &offsets, &data, &bits, &first, &rows)) {
        return NULL;
    }
    PyObject *found = NULL;
    if (bits != Py_None && PyObject_GetBuffer(bits, &valid, PyBUF_SIMPLE)) {
        goto done;
    }
    Py_ssize_t known = offsets.len / (Py_ssize_t)sizeof(int32_t) - 1;
    if (first < 0 || rows < 0 || first > known || rows > known - first ||
        (valid.obj && valid.len < (first + rows + 7) / 8)) {
        PyErr_SetString(PyExc_ValueError, "offsets or validity are shorter than the rows");
        goto done;
    }
    bool right = true;
    for (Py_ssize_t row = first; right && row < first + rows; row++) {
        if (valid.obj && !(((const uint8_t *)valid.buf)[row / 8] >> row % 8 & 1)) {
            right = add_null(self, 0);
            continue;
        }
        int32_t ends[2];
        memcpy(ends, (const uint8_t *)offsets.buf + row * (Py_ssize_t)sizeof(int32_t), sizeof ends);
        if (ends[0] < 0 || ends[1] < ends[0] || ends[1] > data.len) {
            PyErr_SetString(PyExc_ValueError, "an offset outside of the data");
            goto done;
        }
        const uint8_t *start = data.buf;
        Cursor cursor = {start + ends[0], start + ends[1]};
        right = read_value(self, 0, &cursor);
    }
    if (right) {
        found = results(self, (size_t)rows);
    } else if (!PyErr_Occurred()) {
        found = Py_NewRef(Py_None);
    }
done:
    forget(self);
    if (valid.obj) {
        PyBuffer_Release(&valid);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return found;
}

static bool load_columns(Decoder *self, PyObject *columns) {
    for (Py_ssize_t index = 0; index < self->column_count; index++) {
        Column *column = &self->columns[index];
        if (!PyArg_ParseTuple(PyList_GET_ITEM(columns, index), "ii", &column->kind, &column->end)) {
            return false;
        }
        bool nested = column->kind == STRUCTS || column->kind == LISTS;
        if (column->kind < 0 || column->kind >= COLUMN_KINDS || column->end > self->column_count ||
            (nested ? column->end <= index + 1 : column->end != index + 1)) {
            PyErr_SetString(PyExc_ValueError, "a column that cannot be");
            return false;
        }
    }
    return true;
}

static bool load_nodes(Decoder *self, PyObject *nodes) {
    for (Py_ssize_t index = 0; index < self->node_count; index++) {
        Node *node = &self->nodes[index];
        long long argument, more;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(nodes, index), "iiiLL", &node->kind, &node->column, &node->end, &argument,
                              &more)) {
            return false;
        }
        node->argument = argument;
        node->more = more;
        bool nested = node->kind >= RECORD && node->kind <= UNION, inner = node->kind != RECORD && node->kind != UNION;
        bool right = node->kind >= 0 && node->kind < NODE_KINDS && node->column >= NONE &&
                     node->column < self->column_count && node->end > index && node->end <= self->node_count &&
                     argument >= 0 && more >= 0;
        right = right && (nested ? !inner || node->end > index + 1 : node->end == index + 1);
        right = right && (node->kind != ABSENT || node->column != NONE);
        right = right && ((node->kind != MAP && node->kind != UNION && node->kind != NOTHING) || node->column == NONE);
        right = right && (node->kind != ENUM || argument + more <= PyTuple_GET_SIZE(self->symbols));
        right = right && (node->kind != DECIMAL || more <= 38);
        right = right && (node->kind != ARRAY || node->column == NONE || self->columns[node->column].kind == LISTS);
        right = right && (node->kind != RECORD || node->column == NONE || self->columns[node->column].kind == STRUCTS);
        if (!right) {
            PyErr_SetString(PyExc_ValueError, "a node that cannot be");
            return false;
        }
    }
    return true;
}

static void decoder_dealloc(Decoder *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->columns) {
        forget(self);
    }
    PyMem_Free(self->columns);
    PyMem_Free(self->nodes);
    Py_XDECREF(self->symbols);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *decoder_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
    PyObject *nodes, *columns, *symbols;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &nodes, &PyList_Type, &columns, &PyTuple_Type, &symbols)) {
        return NULL;
    }
    Py_ssize_t node_count = PyList_GET_SIZE(nodes), column_count = PyList_GET_SIZE(columns);
    if (!node_count || node_count > MOST_NODES || !column_count || column_count > MOST_NODES) {
        PyErr_SetString(PyExc_ValueError, "no nodes or columns, or too many");
        return NULL;
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(symbols); index++) {
        if (!PyBytes_Check(PyTuple_GET_ITEM(symbols, index))) {
            PyErr_SetString(PyExc_TypeError, "a symbol must be bytes");
            return NULL;
        }
    }
    Decoder *self = (Decoder *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->symbols = Py_NewRef(symbols);
    self->nodes = PyMem_Calloc((size_t)node_count, sizeof *self->nodes);
    self->columns = PyMem_Calloc((size_t)column_count, sizeof *self->columns);
    if (!self->nodes || !self->columns) {
        PyErr_NoMemory();
    } else {
        self->node_count = node_count;
        self->column_count = column_count;
        if (load_columns(self, columns) && load_nodes(self, nodes)) {
            return (PyObject *)self;
        }
    }
    Py_DECREF(self);
    return NULL;
}

static PyMethodDef decoder_methods[] = {
    {"decode", (PyCFunction)decoder_decode, METH_VARARGS, "Decode payloads; None if one of them is not valid."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot decoder_slots[] = {
    {Py_tp_doc, "Decode Avro payloads to columns; see native_avro.py."},
    {Py_tp_new, decoder_new},
    {Py_tp_dealloc, decoder_dealloc},
    {Py_tp_methods, decoder_methods},
    {0, NULL},
};

static PyType_Spec decoder_spec = {
    .name = "readonly_spark.values._avro.Decoder",
    .basicsize = sizeof(Decoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = decoder_slots,
};

static int prepare(PyObject *module) {
    PyObject *made = blocks_prepare() ? PyType_FromSpec(&decoder_spec) : NULL;
    int failed = made ? PyModule_AddObjectRef(module, "Decoder", made) : -1;
    Py_XDECREF(made);
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
    .m_name = "readonly_spark.values._avro",
    .m_doc = "Avro payloads to Arrow columns in C.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__avro(void) { return PyModuleDef_Init(&module); }

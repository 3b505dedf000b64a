/* Message ids as text. */
#ifndef READONLY_SPARK_IDS_H
#define READONLY_SPARK_IDS_H

#include "_columns.h"

static size_t write_decimal(uint8_t *at, uint32_t number) {
    uint8_t digits[10];
    size_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number);
    for (size_t index = 0; index < count; index++) {
        at[index] = digits[count - 1 - index];
    }
    return count;
}

/* Write for each row the id of its entry, a colon and the batch index. */
static bool write_ids(PyObject *entries, const Py_buffer *spread, const Py_buffer *indexes, Texts *out) {
    const int32_t *of_rows = spread->buf, *places = indexes->buf;
    size_t rows = (size_t)indexes->len / sizeof(int32_t);
    for (size_t row = 0; row < rows; row++) {
        Py_ssize_t entry = of_rows ? of_rows[row] : (Py_ssize_t)row, size;
        if (entry < 0 || entry >= PyList_GET_SIZE(entries) || places[row] < 0) {
            PyErr_SetString(PyExc_ValueError, "a row without an entry, or not in a batch");
            return false;
        }
        const char *text = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(entries, entry), &size);
        if (!text) {
            return false;
        }
        uint8_t place[11] = ":";
        size_t more = 1 + write_decimal(place + 1, (uint32_t)places[row]);
        uint8_t *at = texts_room(out, row, (size_t)size + more);
        if (!at) {
            return false;
        }
        memcpy(at, text, (size_t)size);
        memcpy(at + size, place, more);
    }
    return true;
}

static PyObject *message_ids(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *entries, *spread_object, *found = NULL;
    Py_buffer spread = {0}, indexes = {0};
    if (!PyArg_ParseTuple(arguments, "O!Oy*:message_ids", &PyList_Type, &entries, &spread_object, &indexes)) {
        return NULL;
    }
    if (spread_object == Py_None || PyObject_GetBuffer(spread_object, &spread, PyBUF_SIMPLE) == 0) {
        Texts out = {0};
        size_t rows = (size_t)indexes.len / sizeof(int32_t);
        if (spread.buf && spread.len < indexes.len) {
            PyErr_SetString(PyExc_ValueError, "rows without an entry");
        } else if (write_ids(entries, &spread, &indexes, &out)) {
            found = take_texts(&out, rows);
        }
        texts_free(&out);
    }
    PyBuffer_Release(&spread);
    PyBuffer_Release(&indexes);
    return found;
}

#endif

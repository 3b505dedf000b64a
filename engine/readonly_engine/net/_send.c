/* send_many: write the same bytes to many sockets without the GIL, see sending.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

/* Return the number of bytes written, 0 for a full buffer or a broken connection. Does not block. */
static Py_ssize_t send_one(int descriptor, const char *bytes, size_t size) {
    ssize_t taken;
    do {
        taken = send(descriptor, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (taken < 0 && errno == EINTR);
    return taken < 0 ? 0 : taken;
}

/* Copy the descriptors out of the list, which may change while the GIL is released. */
static int *descriptors_of(PyObject *list, Py_ssize_t count) {
    int *descriptors = PyMem_New(int, count ? count : 1);
    if (descriptors == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long value = PyLong_AsLong(PyList_GET_ITEM(list, i));
        if (value > INT_MAX || value < INT_MIN) {
            PyErr_SetString(PyExc_OverflowError, "file descriptor out of range");
        }
        if (PyErr_Occurred()) {
            PyMem_Free(descriptors);
            return NULL;
        }
        descriptors[i] = (int)value;
    }
    return descriptors;
}

static PyObject *left_of(const Py_ssize_t *taken, Py_ssize_t count, Py_ssize_t size) {
    PyObject *left = PyList_New(0);
    for (Py_ssize_t i = 0; left != NULL && i < count; i++) {
        if (taken[i] == size) {
            continue;
        }
        PyObject *one = Py_BuildValue("(nn)", i, taken[i]);
        if (one == NULL || PyList_Append(left, one) < 0) {
            Py_CLEAR(left);
        }
        Py_XDECREF(one);
    }
    return left;
}

static PyObject *send_many(PyObject *module, PyObject *args) {
    PyObject *list;
    Py_buffer data;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!y*:send_many", &PyList_Type, &list, &data)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(list);
    PyObject *left = NULL;
    int *descriptors = descriptors_of(list, count);
    Py_ssize_t *taken = descriptors == NULL ? NULL : PyMem_New(Py_ssize_t, count ? count : 1);
    if (taken != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t i = 0; i < count; i++) {
            taken[i] = send_one(descriptors[i], data.buf, (size_t)data.len);
        }
        Py_END_ALLOW_THREADS;
        left = left_of(taken, count, data.len);
    } else if (descriptors != NULL) {
        PyErr_NoMemory();
    }
    PyMem_Free(taken);
    PyMem_Free(descriptors);
    PyBuffer_Release(&data);
    return left;
}

static PyMethodDef methods[] = {
    {"send_many", send_many, METH_VARARGS, "Write the same bytes to many sockets; return those that did not accept all."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_send", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__send(void) { return PyModule_Create(&module); }

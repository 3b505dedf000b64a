/* Named tuples that are declared in Python and created in C. */
#ifndef READONLY_ENGINE_TUPLES_H
#define READONLY_ENGINE_TUPLES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Return a class of named tuples, as a new reference; NULL with an error if there is none of that name. */
static PyTypeObject *tuple_type(const char *from, const char *name) {
    PyObject *source = PyImport_ImportModule(from);
    PyObject *found = source == NULL ? NULL : PyObject_GetAttrString(source, name);
    Py_XDECREF(source);
    if (found != NULL && !(PyType_Check(found) && PyType_IsSubtype((PyTypeObject *)found, &PyTuple_Type))) {
        PyErr_Format(PyExc_TypeError, "%s.%s is no tuple", from, name);
        Py_CLEAR(found);
    }
    return (PyTypeObject *)found;
}

#endif

#define PY_SSIZE_T_CLEAN
#include <Python.h>

static struct PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_decode",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__decode(void) { return PyModuleDef_Init(&module); }

/* MESSAGEs of an owner: decoded, delivered by splices, or passed to handlers; see wire/pushed.py. */
#ifndef READONLY_ENGINE_READER_H
#define READONLY_ENGINE_READER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "_message.h"
#include "_splice.h"

enum { MOST_FRAMES = 64 }; /* of one client in one system call; more take the usual way */

typedef struct {
    PyTypeObject *entry_type;
    PyTypeObject *splice_type;
    /* names of attributes */
    PyObject *last_readable;
    PyObject *partial;
    PyObject *missing;
    PyObject *guard;
    PyObject *latency;
    PyObject *due;
    PyObject *check_due;
    PyObject *descriptor;
    PyObject *unsent;
    PyObject *deliver;
} Pushing;

static bool pushing_names(Pushing *pushing) {
    pushing->last_readable = PyUnicode_InternFromString("last_readable");
    pushing->partial = PyUnicode_InternFromString("partial");
    pushing->missing = PyUnicode_InternFromString("missing");
    pushing->guard = PyUnicode_InternFromString("guard");
    pushing->latency = PyUnicode_InternFromString("latency");
    pushing->due = PyUnicode_InternFromString("due");
    pushing->check_due = PyUnicode_InternFromString("check_due");
    pushing->descriptor = PyUnicode_InternFromString("descriptor");
    pushing->unsent = PyUnicode_InternFromString("unsent");
    pushing->deliver = PyUnicode_InternFromString("deliver");
    return !PyErr_Occurred();
}

static void pushing_clear(Pushing *pushing) {
    Py_CLEAR(pushing->entry_type);
    Py_CLEAR(pushing->splice_type);
    Py_CLEAR(pushing->last_readable);
    Py_CLEAR(pushing->partial);
    Py_CLEAR(pushing->missing);
    Py_CLEAR(pushing->guard);
    Py_CLEAR(pushing->latency);
    Py_CLEAR(pushing->due);
    Py_CLEAR(pushing->check_due);
    Py_CLEAR(pushing->descriptor);
    Py_CLEAR(pushing->unsent);
    Py_CLEAR(pushing->deliver);
}

/* ---- Decoding ---- */

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
static int add_to_runs(const Pushing *pushing, PyObject *runs, PyObject *handler, const Pushed *pushed) {
    PyObject *entry = entry_of(pushing->entry_type, pushed);
    if (entry == NULL) {
        return -1;
    }
    Py_ssize_t count = PyList_GET_SIZE(runs);
    PyObject *last = count ? PyList_GET_ITEM(runs, count - 1) : NULL;
    int status;
    if (last != NULL && PyTuple_GET_ITEM(last, 0) == handler) {
        status = PyList_Append(PyTuple_GET_ITEM(last, 1), entry);
    } else {
        PyObject *run = Py_BuildValue("(O[O])", handler, entry);
        status = run == NULL ? -1 : PyList_Append(runs, run);
        Py_XDECREF(run);
    }
    Py_DECREF(entry);
    return status;
}

typedef struct {
    PyObject *writes;  /* frames of splices, by the client's connection */
    PyObject *spliced; /* the last splice that has delivered; NULL for none */
    PyObject *runs;    /* handlers with their entries */
    Py_ssize_t size;   /* bytes that the decoded MESSAGEs take */
} Decoded;

static void decoded_clear(Decoded *decoded) {
    Py_CLEAR(decoded->writes);
    Py_CLEAR(decoded->spliced);
    Py_CLEAR(decoded->runs);
}

/* Return the handler of a MESSAGE; NULL for none, or with an error. */
static PyObject *handler_of(PyObject *handlers, const Pushed *pushed) {
    PyObject *consumer_id = PyLong_FromUnsignedLongLong(pushed->consumer_id);
    PyObject *handler = consumer_id == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(handlers, consumer_id));
    Py_XDECREF(consumer_id);
    return handler;
}

static int decode(const Pushing *pushing, PyObject *data, Py_ssize_t start, PyObject *handlers, Decoded *decoded) {
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(data) + start;
    const uint8_t *at = begin, *end = begin + PyBytes_GET_SIZE(data) - start;
    *decoded = (Decoded){PyDict_New(), NULL, PyList_New(0), 0};
    int status = decoded->writes == NULL || decoded->runs == NULL ? -1 : 0;
    Pushed pushed;
    Found found;
    while (status == 0 && load_pushed(at, end, &pushed)) {
        PyObject *handler = handler_of(handlers, &pushed);
        if (handler == NULL) {
            status = PyErr_Occurred() ? -1 : 0;
            break;
        }
        if (!Py_IS_TYPE(handler, pushing->splice_type)) {
            status = add_to_runs(pushing, decoded->runs, handler, &pushed);
        } else if (fits((Splice *)handler, &pushed, &found)) {
            status = deliver((Splice *)handler, &pushed, &found, decoded->writes, pushing->last_readable);
            Py_XSETREF(decoded->spliced, Py_NewRef(handler));
        } else {
            ((Splice *)handler)->running = 0; /* so that later entries do not overtake this one */
            status = add_to_runs(pushing, decoded->runs, ((Splice *)handler)->fallback, &pushed);
        }
        Py_DECREF(handler);
        at = pushed.end;
    }
    decoded->size = at - begin;
    return status;
}

/* ---- Attributes of Python's objects ---- */

static int truth_of(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return truth;
}

/* As clock.lease_time. */
static double lease_time(void) {
    struct timespec now;
#ifdef CLOCK_BOOTTIME
    clock_gettime(CLOCK_BOOTTIME, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Suspend deliveries whose lease has ended. */
static int check_leases(const Pushing *pushing, PyObject *splicing) {
    PyObject *guard = PyObject_GetAttr(splicing, pushing->guard);
    PyObject *due = guard == NULL ? NULL : PyObject_GetAttr(guard, pushing->due);
    double end = due == NULL ? -1.0 : PyFloat_AsDouble(due);
    int status = due == NULL || (end == -1.0 && PyErr_Occurred()) ? -1 : 0;
    if (status == 0 && lease_time() >= end) {
        PyObject *done = PyObject_CallMethodNoArgs(guard, pushing->check_due);
        status = done == NULL ? -1 : 0;
        Py_XDECREF(done);
    }
    Py_XDECREF(due);
    Py_XDECREF(guard);
    return status;
}

/* ---- Writing ---- */

/* Remove written bytes from the beginning of frames. */
static int drop_written(PyObject *frames, size_t taken) {
    Py_ssize_t whole = 0;
    while (taken >= (size_t)PyBytes_GET_SIZE(PyList_GET_ITEM(frames, whole))) {
        taken -= (size_t)PyBytes_GET_SIZE(PyList_GET_ITEM(frames, whole++));
    }
    if (taken) {
        PyObject *frame = PyList_GET_ITEM(frames, whole);
        PyObject *rest = PyBytes_FromStringAndSize(PyBytes_AS_STRING(frame) + taken, PyBytes_GET_SIZE(frame) - (Py_ssize_t)taken);
        if (rest == NULL || PyList_SetItem(frames, whole, rest) < 0) {
            return -1;
        }
    }
    return PyList_SetSlice(frames, 0, whole, NULL);
}

/* Return the descriptor of a client's socket, to which bytes may go at once; -1 for the usual way. */
static int open_socket(const Pushing *pushing, PyObject *writer) {
    PyObject *unsent = PyObject_GetAttr(writer, pushing->unsent);
    PyObject *descriptor = unsent == NULL ? NULL : PyObject_GetAttr(writer, pushing->descriptor);
    long number = -1;
    if (descriptor != NULL && PyList_CheckExact(unsent) && PyList_GET_SIZE(unsent) == 0) {
        number = PyLong_AsLong(descriptor);
    }
    Py_XDECREF(descriptor);
    Py_XDECREF(unsent);
    PyErr_Clear(); /* the usual way reports what is wrong with this client */
    return number < 0 || number > INT_MAX ? -1 : (int)number;
}

/* Write frames to a client's socket. Return 1 if it has taken all; they are what is left otherwise. */
static int write_frames(int socket, PyObject *frames) {
    Py_ssize_t count = PyList_GET_SIZE(frames);
    if (count > MOST_FRAMES) {
        return 0;
    }
    struct iovec parts[MOST_FRAMES];
    size_t size = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *frame = PyList_GET_ITEM(frames, i);
        parts[i] = (struct iovec){PyBytes_AS_STRING(frame), (size_t)PyBytes_GET_SIZE(frame)};
        size += parts[i].iov_len;
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t taken;
    do {
        taken = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (taken < 0 && errno == EINTR);
    if (taken >= 0 && (size_t)taken == size) {
        return 1;
    }
    return taken <= 0 ? 0 : drop_written(frames, (size_t)taken);
}

/* Write the frames of all clients; leave those that take the usual way. */
static int write_all(const Pushing *pushing, PyObject *writes) {
    PyObject *writers = PyDict_Keys(writes);
    if (writers == NULL) {
        return -1;
    }
    int status = 0;
    for (Py_ssize_t i = 0; status >= 0 && i < PyList_GET_SIZE(writers); i++) {
        PyObject *writer = PyList_GET_ITEM(writers, i);
        int socket = open_socket(pushing, writer);
        if (socket >= 0) {
            PyObject *frames = PyDict_GetItemWithError(writes, writer);
            status = frames == NULL ? -1 : write_frames(socket, frames);
            if (status == 1) {
                status = PyDict_DelItem(writes, writer);
            }
        }
    }
    Py_DECREF(writers);
    return status < 0 ? -1 : 0;
}

/* ---- PushReader ---- */

typedef struct {
    PyObject_HEAD
    PyObject *rest;
    PyObject *handlers;
    PyObject *splitter;
    PyObject *splicing;
    char responsive;
} Reader;

static const Pushing *pushing_of(PyObject *reader);

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *rest, *handlers, *splitter;
    if (!PyArg_ParseTuple(args, "OO!O:PushReader", &rest, &PyDict_Type, &handlers, &splitter)) {
        return NULL;
    }
    Reader *reader = (Reader *)type->tp_alloc(type, 0);
    if (reader != NULL) {
        reader->rest = Py_NewRef(rest);
        reader->handlers = Py_NewRef(handlers);
        reader->splitter = Py_NewRef(splitter);
        reader->splicing = Py_NewRef(Py_None);
        reader->responsive = 1;
    }
    return (PyObject *)reader;
}

static int reader_traverse(PyObject *self, visitproc visit, void *arg) {
    Reader *reader = (Reader *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reader->rest);
    Py_VISIT(reader->handlers);
    Py_VISIT(reader->splitter);
    Py_VISIT(reader->splicing);
    return 0;
}

static int reader_clear(PyObject *self) {
    Reader *reader = (Reader *)self;
    Py_CLEAR(reader->rest);
    Py_CLEAR(reader->handlers);
    Py_CLEAR(reader->splitter);
    Py_CLEAR(reader->splicing);
    return 0;
}

static void reader_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)reader_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Write what splices have delivered. */
static int write_spliced(const Pushing *pushing, PyObject *splicing, Decoded *decoded) {
    if (write_all(pushing, decoded->writes) < 0) {
        return -1;
    }
    PyObject *latency = PyObject_GetAttr(splicing, pushing->latency);
    int due = latency == NULL ? -1 : truth_of(latency, pushing->due);
    Py_XDECREF(latency);
    if (due == 0 && PyDict_GET_SIZE(decoded->writes) == 0) {
        return 0;
    }
    PyObject *done = NULL;
    if (due >= 0) {
        done = PyObject_CallMethodObjArgs(splicing, pushing->deliver, decoded->writes, decoded->spliced, NULL);
    }
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int call_handlers(PyObject *runs) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(runs); i++) {
        PyObject *run = PyList_GET_ITEM(runs, i);
        PyObject *done = PyObject_CallOneArg(PyTuple_GET_ITEM(run, 0), PyTuple_GET_ITEM(run, 1));
        if (done == NULL) {
            return -1;
        }
        Py_DECREF(done);
    }
    return 0;
}

/* Deliver the MESSAGEs at `start` of the bytes; return the number of their bytes, -1 for an error. */
static Py_ssize_t read_pushed(const Pushing *pushing, Reader *reader, PyObject *data, Py_ssize_t start) {
    PyObject *splicing = Py_NewRef(reader->splicing == NULL ? Py_None : reader->splicing);
    Decoded decoded = {0};
    int status = splicing == Py_None ? 0 : check_leases(pushing, splicing);
    status = status < 0 ? -1 : decode(pushing, data, start, reader->handlers, &decoded);
    if (decoded.spliced != NULL) { /* also after an error: these entries are counted, so nobody would send them again */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        status = write_spliced(pushing, splicing, &decoded) < 0 ? -1 : status;
        if (type != NULL) {
            PyErr_Restore(type, value, traceback);
        }
    }
    status = status < 0 ? -1 : call_handlers(decoded.runs);
    decoded_clear(&decoded);
    Py_DECREF(splicing);
    return status < 0 ? -1 : decoded.size;
}

/* Pass a part of the bytes on, if there is any. */
static int pass_on(const Reader *reader, PyObject *data, Py_ssize_t begin, Py_ssize_t end) {
    if (begin == end) {
        return 0;
    }
    bool whole = begin == 0 && end == PyBytes_GET_SIZE(data);
    PyObject *part = whole ? Py_NewRef(data) : PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + begin, end - begin);
    PyObject *done = part == NULL ? NULL : PyObject_CallOneArg(reader->rest, part);
    Py_XDECREF(part);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Complete a frame that had arrived in part. Return the number of its bytes here, -1 for an error. */
static Py_ssize_t complete(const Pushing *pushing, const Reader *reader, PyObject *data) {
    Py_ssize_t at = 0, size = PyBytes_GET_SIZE(data);
    int partial = 1;
    while (at < size && (partial = truth_of(reader->splitter, pushing->partial)) == 1) { /* twice if its length had, too */
        PyObject *missing = PyObject_GetAttr(reader->splitter, pushing->missing);
        Py_ssize_t wanted = missing == NULL ? -1 : PyLong_AsSsize_t(missing);
        Py_XDECREF(missing);
        if (wanted == -1 && PyErr_Occurred()) {
            return -1;
        }
        Py_ssize_t end = wanted < 1 || wanted > size - at ? size : at + wanted;
        if (pass_on(reader, data, at, end) < 0) {
            return -1;
        }
        at = end;
    }
    return partial < 0 ? -1 : at;
}

/* Return the end of frames that take the usual way, the first of which is at `start`; -1 for an error. */
static Py_ssize_t usual_end(PyObject *data, Py_ssize_t start, PyObject *handlers) {
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(data);
    const uint8_t *at = begin + start, *end = begin + PyBytes_GET_SIZE(data);
    Pushed pushed;
    while (end - at >= SIZE && load_u32(at) < (uint64_t)(end - at) - SIZE) {
        at += SIZE + load_u32(at);
        if (load_pushed(at, end, &pushed)) {
            PyObject *handler = handler_of(handlers, &pushed);
            Py_XDECREF(handler);
            if (handler != NULL || PyErr_Occurred()) {
                return handler == NULL ? -1 : at - begin;
            }
        }
    }
    return end - begin;
}

static PyObject *reader_receive(PyObject *self, PyObject *data) {
    Reader *reader = (Reader *)self;
    const Pushing *pushing = pushing_of(self);
    if (pushing == NULL) {
        return NULL;
    }
    if (!PyBytes_Check(data)) {
        return PyErr_Format(PyExc_TypeError, "bytes wanted, not %s", Py_TYPE(data)->tp_name);
    }
    reader->responsive = 1;
    Py_ssize_t size = PyBytes_GET_SIZE(data), end = 0, taken;
    Py_ssize_t at = PyDict_GET_SIZE(reader->handlers) == 0 ? 0 : complete(pushing, reader, data);
    while (at >= 0 && at < size) {
        taken = PyDict_GET_SIZE(reader->handlers) == 0 ? 0 : read_pushed(pushing, reader, data, at);
        if (taken >= 0) {
            at += taken;
            end = PyDict_GET_SIZE(reader->handlers) == 0 || at == size ? size : usual_end(data, at, reader->handlers);
        }
        at = taken < 0 || end < 0 || pass_on(reader, data, at, end) < 0 ? -1 : end;
    }
    if (at < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef reader_methods[] = {
    {"receive", reader_receive, METH_O, "Deliver the MESSAGEs in received bytes, and pass the rest on."},
    {0},
};

static PyMemberDef reader_members[] = {
    {"splicing", T_OBJECT, offsetof(Reader, splicing), 0, NULL},
    {"responsive", T_BOOL, offsetof(Reader, responsive), 0, NULL},
    {0},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads the MESSAGEs of an owner; see readonly_engine.wire.pushed."},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_methods, reader_methods},
    {Py_tp_members, reader_members},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "readonly_engine.wire._entries.PushReader",
    .basicsize = sizeof(Reader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = reader_slots,
};

#endif

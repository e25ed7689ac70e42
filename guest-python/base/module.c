/* The built-in module `_gloveport`: the host call, the standard streams, the environment and the time zone.

   Guest code is single-threaded (Thread.start raises), so static buffers need no lock. */
#include "gloveport.h"

#include <string.h>

/* Message opcodes that this file sends itself; Python code composes the others. */
enum { OP_FETCH = 0, OP_OUTPUT = 5 };

/* Answers of the host that are not a length. */
enum { ERR_MALFORMED = -1, ERR_TOO_LONG = -2, ERR_TOO_MANY = -3 };

/* Replies up to this size cost one crossing and no allocation beyond the result. */
#define REPLY_CAPACITY 65536

/* Bytes that a stream collects before it sends them. */
#define STREAM_CAPACITY 65536

__attribute__((import_module("gloveport"), import_name("call")))
extern int32_t host_call(const uint8_t *request, size_t request_len, uint8_t *reply, size_t reply_capacity);

/* From wasi-libc, which declares them in a header that is not installed. */
extern char *__wasilibc_cwd;
extern char **__wasilibc_get_environ(void);
extern void __wasilibc_deinitialize_environ(void);

static uint8_t reply_buffer[REPLY_CAPACITY];

/* The text of an OUTPUT message, ready to be sent in place: the two bytes before `data` are opcode and stream number. */
struct stream_buffer {
    uint8_t opcode;
    uint8_t number;
    uint8_t data[STREAM_CAPACITY];
};

static struct stream_buffer stdout_buffer = {OP_OUTPUT, 1, {0}};
static struct stream_buffer stderr_buffer = {OP_OUTPUT, 2, {0}};

/* One record of the table that the host reads; the layout is part of the ABI. */
struct stream {
    uint8_t *data;
    uint32_t capacity;
    volatile uint32_t length;
};

_Static_assert(sizeof(struct stream) == 12, "the stream table is three 32-bit words per stream");

/* Exported by name; its address is the value of the exported global. */
__attribute__((used, visibility("default")))
struct stream gloveport_streams[2] = {
    {stdout_buffer.data, STREAM_CAPACITY, 0},
    {stderr_buffer.data, STREAM_CAPACITY, 0},
};

static void raise_refusal(int32_t status) {
    switch (status) {
    case ERR_MALFORMED:
        PyErr_SetString(PyExc_ValueError, "the host does not understand this message");
        break;
    case ERR_TOO_LONG:
        PyErr_SetString(PyExc_ValueError, "the request is longer than the host accepts");
        break;
    case ERR_TOO_MANY:
        PyErr_SetString(PyExc_RuntimeError, "too many tool calls are outstanding");
        break;
    default:
        PyErr_Format(PyExc_RuntimeError, "the host refused the call (status %d)", (int)status);
        break;
    }
}

/* Gets the reply of `length` bytes that did not fit and that the host still holds. */
static PyObject *fetch_reply(int32_t length) {
    PyObject *reply = PyBytes_FromStringAndSize(NULL, length);
    if (reply == NULL) {
        return NULL;
    }
    const uint8_t request = OP_FETCH;
    int32_t got = host_call(&request, 1, (uint8_t *)PyBytes_AS_STRING(reply), (size_t)length);
    if (got != length) {
        Py_DECREF(reply);
        if (got < 0) {
            raise_refusal(got);
        } else {
            PyErr_SetString(PyExc_RuntimeError, "the host no longer has the reply");
        }
        return NULL;
    }
    return reply;
}

PyDoc_STRVAR(call_doc, "call(message, /)\n--\n\nSend one message (bytes-like) to the host and return its reply as bytes.");

static PyObject *module_call(PyObject *Py_UNUSED(module), PyObject *message) {
    Py_buffer view;
    if (PyObject_GetBuffer(message, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int32_t length = host_call(view.buf, (size_t)view.len, reply_buffer, sizeof reply_buffer);
    PyBuffer_Release(&view);
    if (length < 0) {
        raise_refusal(length);
        return NULL;
    }
    if ((size_t)length > sizeof reply_buffer) {
        return fetch_reply(length);
    }
    return PyBytes_FromStringAndSize((const char *)reply_buffer, length);
}

/* The host reads `data[0..length)` between any two instructions, so the bytes must be there before the length says so. */
static void publish_length(struct stream *stream, uint32_t length) {
    __asm__ volatile("" ::: "memory");
    stream->length = length;
    __asm__ volatile("" ::: "memory");
}

static int stream_flush(struct stream *stream) {
    uint32_t length = stream->length;
    if (length == 0) {
        return 0;
    }
    const uint8_t *message = stream->data - offsetof(struct stream_buffer, data);
    int32_t status = host_call(message, offsetof(struct stream_buffer, data) + length, NULL, 0);
    if (status < 0) {
        raise_refusal(status);
        return -1;
    }
    publish_length(stream, 0);
    return 0;
}

/* A message has to be contiguous, so long texts go through the buffer as well, one full buffer at a time. */
static int stream_append(struct stream *stream, const uint8_t *bytes, size_t count) {
    while (count > 0) {
        uint32_t length = stream->length;
        size_t part = stream->capacity - length;
        if (part > count) {
            part = count;
        }
        memcpy(stream->data + length, bytes, part);
        publish_length(stream, length + (uint32_t)part);
        bytes += part;
        count -= part;
        if (stream->length == stream->capacity && stream_flush(stream) < 0) {
            return -1;
        }
    }
    return 0;
}

int gloveport_flush(void) {
    int out = stream_flush(&gloveport_streams[0]);
    if (out < 0) {
        return out;
    }
    return stream_flush(&gloveport_streams[1]);
}

static PyObject *write_to(struct stream *stream, PyObject *bytes) {
    Py_buffer view;
    if (PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Py_ssize_t count = view.len;
    int status = stream_append(stream, view.buf, (size_t)count);
    PyBuffer_Release(&view);
    return status < 0 ? NULL : PyLong_FromSsize_t(count);
}

PyDoc_STRVAR(stdout_write_doc,
             "stdout_write(bytes, /)\n--\n\nAppend to the buffer of standard output and return the number of bytes.");

static PyObject *module_stdout_write(PyObject *Py_UNUSED(module), PyObject *bytes) {
    return write_to(&gloveport_streams[0], bytes);
}

PyDoc_STRVAR(stderr_write_doc,
             "stderr_write(bytes, /)\n--\n\nAppend to the buffer of standard error and return the number of bytes.");

static PyObject *module_stderr_write(PyObject *Py_UNUSED(module), PyObject *bytes) {
    return write_to(&gloveport_streams[1], bytes);
}

PyDoc_STRVAR(flush_doc, "flush()\n--\n\nSend what the buffers of standard output and standard error hold.");

static PyObject *module_flush(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args)) {
    if (gloveport_flush() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(environ_doc,
             "environ()\n--\n\nRead the environment from the host anew and return it as a dict of bytes.\n\n"
             "Variables that the script has set in the C environment are dropped.");

static PyObject *module_environ(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args)) {
    __wasilibc_deinitialize_environ();
    PyObject *variables = PyDict_New();
    if (variables == NULL) {
        return NULL;
    }
    for (char **entry = __wasilibc_get_environ(); entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals == NULL) {
            continue;
        }
        PyObject *name = PyBytes_FromStringAndSize(*entry, equals - *entry);
        PyObject *value = PyBytes_FromString(equals + 1);
        int failed = name == NULL || value == NULL || PyDict_SetItem(variables, name, value) < 0;
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (failed) {
            Py_DECREF(variables);
            return NULL;
        }
    }
    return variables;
}

PyDoc_STRVAR(set_tzif_doc,
             "set_tzif(data, /)\n--\n\n"
             "Set the zone for the next time.tzset(): the TZ variable as it is now, with `data` (the bytes of a TZif\n"
             "file, or None) as the contents of the zone file that it names. Without TZ, `data` is the system's zone.");

static PyObject *module_set_tzif(PyObject *Py_UNUSED(module), PyObject *data) {
    /* libc reads the zone in place, so the buffer is held until the next one replaces it. */
    static Py_buffer held;

    Py_buffer next = {0};
    if (data != Py_None && PyObject_GetBuffer(data, &next, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    gloveport_set_zone(next.buf, (size_t)next.len);
    PyBuffer_Release(&held);
    held = next;
    Py_RETURN_NONE;
}

/* What a code object refers to; code objects have no traversal of their own. */
static int make_immortal(PyObject *object, void *unused);

static void make_code_immortal(PyCodeObject *code) {
    PyObject *parts[] = {
        code->co_consts, code->co_names, code->co_exceptiontable, code->co_localsplusnames, code->co_localspluskinds,
        code->co_filename, code->co_name, code->co_qualname, code->co_linetable,
    };
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++) {
        if (parts[at] != NULL) {
            make_immortal(parts[at], NULL);
        }
    }
}

/* Goes down only where the collector's list will not lead: to untracked containers, code and keys of dicts. */
static int make_immortal(PyObject *object, void *unused) {
    if (_Py_IsImmortal(object)) {
        return 0;
    }
    object->ob_refcnt = _Py_IMMORTAL_REFCNT;
    if (PyCode_Check(object)) {
        make_code_immortal((PyCodeObject *)object);
    } else if (PyObject_IS_GC(object) && !PyObject_GC_IsTracked(object) && Py_TYPE(object)->tp_traverse != NULL) {
        Py_TYPE(object)->tp_traverse(object, make_immortal, unused);
    }
    if (PyDict_Check(object)) {
        PyObject *key;
        PyObject *value;
        Py_ssize_t position = 0;
        while (PyDict_Next(object, &position, &key, &value)) {
            make_immortal(key, unused);
            make_immortal(value, unused);
        }
    }
    return 0;
}

static int visit_tracked(PyObject *object, void *Py_UNUSED(arg)) {
    make_immortal(object, NULL);
    if (Py_TYPE(object)->tp_traverse != NULL) {
        Py_TYPE(object)->tp_traverse(object, make_immortal, NULL);
    }
    return 1;
}

PyDoc_STRVAR(immortalize_doc,
             "immortalize()\n--\n\nExempt all objects that exist now from reference counting.\n\n"
             "A count that changes dirties the page it lies on, and each dirty page of a snapshot is copied.");

static PyObject *module_immortalize(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args)) {
    PyUnstable_GC_VisitObjects(visit_tracked, NULL);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(settle_doc,
             "settle()\n--\n\nFill the free places of the heap, so that what is allocated from now on lies side by side.");

static PyObject *module_settle(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args)) {
    gloveport_settle_heap();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(enter_doc,
             "enter(path, /)\n--\n\nMake a directory (bytes) of which the host says that it is there the working directory.\n\n"
             "`os.chdir` asks the host about it, which takes longer than all else that a run does before its script.");

static PyObject *module_enter(PyObject *Py_UNUSED(module), PyObject *path) {
    const char *bytes = PyBytes_AsString(path);
    if (bytes == NULL) {
        return NULL;
    }
    char *copy = strdup(bytes);
    if (copy == NULL) {
        return PyErr_NoMemory();
    }
    /* libc frees what stands here only if it comes from its own chdir(), of which there has been none. */
    __wasilibc_cwd = copy;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"settle", module_settle, METH_NOARGS, settle_doc},
    {"enter", module_enter, METH_O, enter_doc},
    {"immortalize", module_immortalize, METH_NOARGS, immortalize_doc},
    {"call", module_call, METH_O, call_doc},
    {"stdout_write", module_stdout_write, METH_O, stdout_write_doc},
    {"stderr_write", module_stderr_write, METH_O, stderr_write_doc},
    {"flush", module_flush, METH_NOARGS, flush_doc},
    {"environ", module_environ, METH_NOARGS, environ_doc},
    {"set_tzif", module_set_tzif, METH_O, set_tzif_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_gloveport",
    .m_doc = "The openings of the sandbox: host calls, standard streams, environment, time zone.",
    .m_size = -1,
    .m_methods = methods,
};

PyObject *PyInit__gloveport(void) {
    return PyModule_Create(&definition);
}

/* The exports of the guest: start-up before the snapshot, and one run after it. */
#include "gloveport.h"

#include <stdlib.h>
#include <string.h>

/* The hash seed is part of the snapshot (LIMITATIONS.md); a fixed one makes the image reproducible. */
#define HASH_SEED 20260101

/* Where tracebacks and inspect say that the standard library lies. Nothing is ever read from there. */
#define STDLIB_DIR L"/lib/python3.13"

/* From wasi-libc: forget what the snapshot's host had preopened and exported, so that each run reads its own. */
extern void __wasilibc_reset_preopens(void);
extern void __wasilibc_deinitialize_environ(void);

/* The function `run` of the Python module `_gp_boot`. */
static PyObject *run_function;

static void check(PyStatus status) {
    if (PyStatus_Exception(status)) {
        Py_ExitStatusException(status);
    }
}

static void start_interpreter(void) {
    PyPreConfig preconfig;
    PyPreConfig_InitIsolatedConfig(&preconfig);
    preconfig.utf8_mode = 1;
    check(Py_PreInitialize(&preconfig));

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.write_bytecode = 0;
    config.install_signal_handlers = 0;
    config.use_hash_seed = 1;
    config.hash_seed = HASH_SEED;
    check(PyConfig_SetString(&config, &config.program_name, L"python3"));
    check(PyConfig_SetString(&config, &config.executable, L"/bin/python3"));
    check(PyConfig_SetString(&config, &config.base_executable, L"/bin/python3"));
    check(PyConfig_SetString(&config, &config.home, L"/"));
    check(PyConfig_SetString(&config, &config.prefix, L"/"));
    check(PyConfig_SetString(&config, &config.base_prefix, L"/"));
    check(PyConfig_SetString(&config, &config.exec_prefix, L"/"));
    check(PyConfig_SetString(&config, &config.base_exec_prefix, L"/"));
    check(PyConfig_SetString(&config, &config.stdlib_dir, STDLIB_DIR));
    config.module_search_paths_set = 1;
    check(PyWideStringList_Append(&config.module_search_paths, L"/boot"));
    check(PyWideStringList_Append(&config.module_search_paths, L"/boot/lib"));
    check(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

/* Runs once, before the snapshot is taken; a failure ends the build with the text on standard error. */
__attribute__((export_name("wizer-initialize")))
void gloveport_initialize(void) {
    if (PyImport_AppendInittab("_gloveport", PyInit__gloveport) < 0) {
        abort();
    }
    start_interpreter();
    PyObject *boot = PyImport_ImportModule("_gp_boot");
    if (boot == NULL) {
        PyErr_Print();
        abort();
    }
    run_function = PyObject_GetAttrString(boot, "run");
    Py_DECREF(boot);
    if (run_function == NULL) {
        PyErr_Print();
        abort();
    }
    __wasilibc_deinitialize_environ();
    __wasilibc_reset_preopens();
    gloveport_settle_heap();
}

__attribute__((export_name("gloveport_alloc")))
void *gloveport_alloc(size_t len) {
    return malloc(len == 0 ? 1 : len);
}

/* Splits the argument of gloveport_run into header and source, both as bytes. */
static int split_argument(const uint8_t *argument, size_t len, PyObject **header, PyObject **source) {
    uint32_t header_len;
    if (len < sizeof header_len) {
        PyErr_SetString(PyExc_ValueError, "the argument of gloveport_run is too short");
        return -1;
    }
    memcpy(&header_len, argument, sizeof header_len);
    const char *rest = (const char *)argument + sizeof header_len;
    size_t rest_len = len - sizeof header_len;
    if (header_len > rest_len) {
        PyErr_SetString(PyExc_ValueError, "the header of gloveport_run's argument is longer than the argument");
        return -1;
    }
    *header = PyBytes_FromStringAndSize(rest, (Py_ssize_t)header_len);
    *source = PyBytes_FromStringAndSize(rest + header_len, (Py_ssize_t)(rest_len - header_len));
    return *header == NULL || *source == NULL ? -1 : 0;
}

/* Returns 0 and the exit code, or -1 with a Python exception set. Takes the argument's memory over. */
static int run_script(uint8_t *argument, size_t len, int32_t *exit_code) {
    PyObject *header = NULL;
    PyObject *source = NULL;
    PyObject *result = NULL;
    int status = split_argument(argument, len, &header, &source);
    free(argument);
    if (status == 0) {
        result = PyObject_CallFunctionObjArgs(run_function, header, source, NULL);
    }
    Py_XDECREF(header);
    Py_XDECREF(source);
    if (result == NULL) {
        return -1;
    }
    /* Exit codes keep their low 32 bits, as on other systems. */
    *exit_code = (int32_t)PyLong_AsUnsignedLongMask(result);
    Py_DECREF(result);
    return PyErr_Occurred() ? -1 : 0;
}

__attribute__((export_name("gloveport_run")))
int32_t gloveport_run(uint8_t *argument, size_t len) {
    int32_t exit_code = 1;
    if (run_script(argument, len, &exit_code) < 0) {
        /* Not PyErr_Print: it would end the instance on SystemExit before the streams are flushed. */
        PyObject *exception = PyErr_GetRaisedException();
        PyErr_DisplayException(exception);
        Py_DECREF(exception);
        exit_code = 1;
    }
    if (gloveport_flush() < 0) {
        PyErr_Clear();
    }
    return exit_code;
}

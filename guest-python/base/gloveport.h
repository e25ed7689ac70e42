/* What the C files of the guest share. ABI.md says what crosses to the host. */
#ifndef GLOVEPORT_H
#define GLOVEPORT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

/* module.c: the built-in module `_gloveport`. */
PyObject *PyInit__gloveport(void);

/* module.c: sends what the two stream buffers hold. Returns 0, or -1 with a Python exception set. */
int gloveport_flush(void);

/* timezone.c: makes TZ of the C environment and `tzif` (a TZif file, or NULL) the zone that the next tzset() takes.
   The bytes are read in place and must stay as they are until the next call. */
void gloveport_set_zone(const unsigned char *tzif, size_t tzif_len);

/* memory.c: fills the free places between what is allocated, before the snapshot. */
void gloveport_settle_heap(void);

#endif

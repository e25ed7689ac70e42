/* Host and service lookups. The toolchain's <netdb.h> declares them, its libc lacks them, and CPython's `_socket` does not compile without.
   The guest has no network: each lookup fails as it does on a machine that knows no other. */
#include <netdb.h>
#include <stddef.h>

static int lookup_error;

int *__h_errno_location(void) {
    return &lookup_error;
}

struct hostent *gethostbyname(const char *name) {
    (void)name;
    lookup_error = HOST_NOT_FOUND;
    return NULL;
}

struct hostent *gethostbyaddr(const void *address, socklen_t len, int family) {
    (void)address;
    (void)len;
    (void)family;
    lookup_error = HOST_NOT_FOUND;
    return NULL;
}

struct servent *getservbyname(const char *name, const char *protocol) {
    (void)name;
    (void)protocol;
    return NULL;
}

struct servent *getservbyport(int port, const char *protocol) {
    (void)port;
    (void)protocol;
    return NULL;
}

const char *hstrerror(int error) {
    (void)error;
    return "the sandbox has no network";
}

/* Searches of C strings that stop where the answer is.

   The toolchain's measure the whole string first. CPython's tokenizer looks for the end of each line with strchr, so compiling a
   script would take time in the square of its length. The toolchain's definitions are weak. */
#include <stddef.h>
#include <string.h>

char *strchrnul(const char *text, int wanted) {
    const char byte = (char)wanted;
    while (*text != '\0' && *text != byte) {
        text++;
    }
    return (char *)text;
}

char *strchr(const char *text, int wanted) {
    char *found = strchrnul(text, wanted);
    return *found == (char)wanted ? found : NULL;
}

size_t strcspn(const char *text, const char *reject) {
    const char *at = text;
    while (*at != '\0' && strchr(reject, *at) == NULL) {
        at++;
    }
    return (size_t)(at - text);
}

size_t strspn(const char *text, const char *accept) {
    const char *at = text;
    while (*at != '\0' && strchr(accept, *at) != NULL) {
        at++;
    }
    return (size_t)(at - text);
}

char *strpbrk(const char *text, const char *accept) {
    const char *at = text + strcspn(text, accept);
    return *at == '\0' ? NULL : (char *)at;
}

/* Time zones. wasi-libc carries musl's zone code but compiles it out, because WASI has no zone files. This file compiles that
   code (from the toolchain's own sources) with three changes, so that it takes the place of libc's stub:

   - The contents of a zone file come from memory, see gloveport_set_zone().
   - TZ is read when the zone is set, not whenever a time is converted. Otherwise a script that assigns os.environ["TZ"]
     and does not call time.tzset() would get the new name with the old zone's data.
   - strftime's %Z takes the name that the `struct tm` carries. musl knows only pointers to its own names, CPython passes a
     copy. */

/* As musl compiles itself; without it <string.h> declares index(), a name that the zone code uses for a variable. */
#define _XOPEN_SOURCE 700

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Longer values are no zone that tzdata or POSIX knows; they mean UTC. */
#define TZ_CAPACITY 256

static char zone_name[TZ_CAPACITY];
static int zone_is_set;
static const unsigned char *zone_file;
static size_t zone_file_len;

static char *zone_variable(void) {
    return zone_is_set ? zone_name : NULL;
}

static const unsigned char *map_zone_file(size_t *len) {
    *len = zone_file_len;
    return zone_file;
}

/* What musl's internal headers would define; their include guards keep them out, since they describe another libc. */
#define LIBC_H
#define LOCK_H
#define LOCK(lock) ((void)(lock))
#define UNLOCK(lock) ((void)(lock))
#define hidden __attribute__((__visibility__("hidden")))
#define weak_alias(old, new) extern __typeof(old) new __attribute__((__weak__, __alias__(#old)))
#ifndef TZNAME_MAX
#define TZNAME_MAX 6
#endif
#ifndef NAME_MAX
#define NAME_MAX 255
#endif
static const struct { int secure; } libc = {0};

/* The switch that the toolchain's copy compiles the zone code out with. The public headers test it too: all that are
   needed have been included above. */
#define __wasilibc_unmodified_upstream 1
#define getenv(name) zone_variable()
#define __map_file(path, len) map_zone_file(len)
#define __munmap(address, len) ((void)0)
#define __tm_to_tzname musl_tm_to_tzname

#include MUSL_TZ_SOURCE

#undef getenv
#undef __tm_to_tzname

/* What libc's strftime asks for. */
const char *__tm_to_tzname(const struct tm *tm) {
    if (tm->__tm_zone != NULL && *tm->__tm_zone != '\0') {
        return tm->__tm_zone;
    }
    tzset();
    return tm->tm_isdst < 0 ? "" : __tzname[tm->tm_isdst > 0];
}

void gloveport_set_zone(const unsigned char *tzif, size_t tzif_len) {
    const char *variable = getenv("TZ");
    zone_is_set = variable != NULL;
    zone_name[0] = '\0';
    if (zone_is_set && strlen(variable) < sizeof zone_name) {
        strcpy(zone_name, variable);
    }
    zone_file = tzif;
    zone_file_len = tzif_len;
    /* musl skips the work when the name is the one it saw last, and keeps pointers into the old file until then. */
    if (old_tz != NULL) {
        old_tz[0] = '\1';
        old_tz[1] = '\0';
    }
    tzset();
}

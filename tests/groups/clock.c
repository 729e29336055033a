/* Sets the clock of one process: the seconds (8 bytes) in the file that STRATA_CLOCK names are added to what it is told,
   from the moment on at which they are written there. Built and preloaded by tests/groups/conftest.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t right = 0;
static const volatile int64_t *ahead = &right;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("STRATA_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) ahead = found;
    if (file >= 0) close(file);
}

int clock_gettime(clockid_t which, struct timespec *into) {
    static int (*real)(clockid_t, struct timespec *) = NULL;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(which, into);
    if (code == 0 && which == CLOCK_REALTIME) into->tv_sec += (time_t)*ahead;
    return code;
}

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    into->tv_sec = now.tv_sec;
    into->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}

/* The kernel waits by the true clock. Times of the monotonic one are no years since 1970. */
int pthread_cond_timedwait(pthread_cond_t *restrict on, pthread_mutex_t *restrict held,
                           const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) = NULL;
    if (!real)
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
            RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec found = *until;
    if (found.tv_sec > 1000000000) found.tv_sec -= (time_t)*ahead;
    return real(on, held, &found);
}

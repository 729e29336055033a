/* Sets the clock of one process: seconds (as text) in the file that STRATA_CLOCK names are added to what it is told.
   Built and preloaded by tests/groups/test_clocks_on_servers.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static double ahead(void) {
    static __thread time_t read_at = 0;
    static __thread double found = 0;
    static int (*real)(clockid_t, struct timespec *) = NULL;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    struct timespec now;
    real(CLOCK_MONOTONIC, &now);
    if (now.tv_sec != read_at) {
        read_at = now.tv_sec;
        const char *path = getenv("STRATA_CLOCK");
        FILE *file = path ? fopen(path, "r") : NULL;
        if (file) {
            if (fscanf(file, "%lf", &found) != 1) found = 0;
            fclose(file);
        }
    }
    return found;
}

int clock_gettime(clockid_t which, struct timespec *into) {
    static int (*real)(clockid_t, struct timespec *) = NULL;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(which, into);
    if (code == 0 && which == CLOCK_REALTIME) into->tv_sec += (time_t)ahead();
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
    if (found.tv_sec > 1000000000) found.tv_sec -= (time_t)ahead();
    return real(on, held, &found);
}

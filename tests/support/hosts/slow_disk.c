/* A disk that is slow or hangs, for one program (LD_PRELOAD). SLOW_DISK_MS: how long fsync and fdatasync take.
   HANGING_DISK: files whose paths contain this text cannot be opened or asked for; who tries waits for ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void slow(void) {
    const char *text = getenv("SLOW_DISK_MS");
    long ms = text ? atol(text) : 0;
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    if (ms) nanosleep(&pause, NULL);
}

static void hang(const char *path) {
    const char *text = getenv("HANGING_DISK");
    while (text && path && strstr(path, text)) sleep(3600);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) { slow(); return NEXT(fsync)(fd); }
int fdatasync(int fd) { slow(); return NEXT(fdatasync)(fd); }
int stat(const char *path, struct stat *found) { hang(path); return NEXT(stat)(path, found); }
int stat64(const char *path, struct stat64 *found) { hang(path); return NEXT(stat64)(path, found); }
int lstat(const char *path, struct stat *found) { hang(path); return NEXT(lstat)(path, found); }
int lstat64(const char *path, struct stat64 *found) { hang(path); return NEXT(lstat64)(path, found); }

static int opened(int (*next)(const char *, int, ...), const char *path, int flags, va_list more) {
    hang(path);
    return next(path, flags, flags & O_CREAT ? va_arg(more, mode_t) : 0);
}

int open(const char *path, int flags, ...) {
    va_list more; va_start(more, flags);
    int fd = opened(NEXT(open), path, flags, more);
    va_end(more); return fd;
}

int open64(const char *path, int flags, ...) {
    va_list more; va_start(more, flags);
    int fd = opened(NEXT(open64), path, flags, more);
    va_end(more); return fd;
}

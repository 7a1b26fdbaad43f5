/* Notes every change to the files below CRASH_ROOT in CRASH_LOG, in the one order of all processes.
   To be preloaded. One line for each call, parts separated by tabs, paths relative to the root:
     pid C inode path    created          pid W inode offset hex   written
     pid T inode size    truncated        pid F inode              file synced
     pid D path          folder synced    pid R from to            renamed
     pid L from to       linked           pid U path               unlinked
     pid M path          folder made      pid X path               folder removed             */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int log_descriptor = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *place = getenv("CRASH_ROOT"), *log = getenv("CRASH_LOG");
    if (!place || !log) return;
    snprintf(root, sizeof root, "%s/", place);
    root_length = strlen(root);
    log_descriptor = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Nobody else changes a file between the call and its line: threads by a mutex, others by flock. */
static int enter(void) {
    if (log_descriptor < 0) return 0;
    pthread_mutex_lock(&threads);
    while (flock(log_descriptor, LOCK_EX) < 0 && errno == EINTR) {}
    return 1;
}
static void leave(void) {
    int kept = errno;
    flock(log_descriptor, LOCK_UN);
    pthread_mutex_unlock(&threads);
    errno = kept;
}
static void note(const char *text, size_t length) {
    int kept = errno;
    while (length) {
        ssize_t done = syscall(SYS_write, log_descriptor, text, length);
        if (done < 0) abort();
        text += done, length -= (size_t)done;
    }
    errno = kept;
}
__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
    char line[3 * PATH_MAX];
    int at = snprintf(line, sizeof line, "%d\t", (int)getpid());
    va_list rest;
    va_start(rest, format);
    at += vsnprintf(line + at, sizeof line - (size_t)at, format, rest);
    va_end(rest);
    note(line, (size_t)at);
}

/* The path below the root, or NULL for one that lies elsewhere. */
static const char *below(char *whole) {
    if (strncmp(whole, root, root_length) == 0) return whole + root_length;
    if (strncmp(whole, root, root_length - 1) == 0 && !whole[root_length - 1]) return "";
    return NULL;
}
static const char *of_descriptor(int descriptor, char *whole) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, whole, PATH_MAX - 1);
    if (length < 0) return NULL;
    whole[length] = 0;
    return below(whole);
}
static const char *of_path(int folder, const char *path, char *whole) {
    if (path[0] == '/') snprintf(whole, PATH_MAX, "%s", path);
    else {
        char start[PATH_MAX];
        if (folder == AT_FDCWD) { if (!getcwd(start, sizeof start)) return NULL; }
        else if (!of_descriptor(folder, start)) return NULL;
        snprintf(whole, PATH_MAX, "%.*s/%s", PATH_MAX / 2 - 2, start, path);
    }
    return below(whole);
}
static int ours(int descriptor, struct stat *facts) {
    char whole[PATH_MAX];
    if (log_descriptor < 0 || descriptor == log_descriptor) return 0;
    if (fstat(descriptor, facts) < 0) return 0;
    if (!S_ISREG(facts->st_mode) && !S_ISDIR(facts->st_mode)) return 0;
    return of_descriptor(descriptor, whole) != NULL;
}

static int opened(int folder, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    const char *inside = log_descriptor < 0 ? NULL : of_path(folder, path, whole);
    if (!inside || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
        return (int)syscall(SYS_openat, folder, path, flags | O_LARGEFILE, mode);
    enter();
    int there = syscall(SYS_faccessat, folder, path, F_OK) == 0;
    int descriptor = (int)syscall(SYS_openat, folder, path, flags | O_LARGEFILE, mode);
    struct stat facts;
    if (descriptor >= 0 && fstat(descriptor, &facts) == 0) {
        if (!there) tell("C\t%lu\t%s\n", (unsigned long)facts.st_ino, inside);
        else if (flags & O_TRUNC) tell("T\t%lu\t0\n", (unsigned long)facts.st_ino);
    }
    leave();
    return descriptor;
}
#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list r; va_start(r, last); mode = va_arg(r, mode_t); va_end(r); }
int open(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags, flags) return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags, flags) return opened(folder, path, flags, mode); }

static void wrote(unsigned long inode, off_t offset, const unsigned char *data, size_t length) {
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(2 * length + 1);
    if (!hex) abort();
    for (size_t i = 0; i < length; i++) hex[2 * i] = digits[data[i] >> 4], hex[2 * i + 1] = digits[data[i] & 15];
    hex[2 * length] = '\n';
    tell("W\t%lu\t%lld\t", inode, (long long)offset);
    note(hex, 2 * length + 1);
    free(hex);
}
static ssize_t put(int descriptor, const void *data, size_t length, int placed, off_t offset) {
    struct stat facts;
    int watched = ours(descriptor, &facts);
    if (watched) enter();
    ssize_t done = placed ? syscall(SYS_pwrite64, descriptor, data, length, offset)
                          : syscall(SYS_write, descriptor, data, length);
    if (watched) {
        int kept = errno;
        if (done > 0) {
            off_t at = placed ? offset : lseek(descriptor, 0, SEEK_CUR) - done;
            wrote((unsigned long)facts.st_ino, at, data, (size_t)done);
        }
        errno = kept;
        leave();
    }
    return done;
}
ssize_t write(int descriptor, const void *data, size_t length) { return put(descriptor, data, length, 0, 0); }
ssize_t pwrite(int descriptor, const void *data, size_t length, off_t at) { return put(descriptor, data, length, 1, at); }
ssize_t pwrite64(int descriptor, const void *data, size_t length, off64_t at) { return put(descriptor, data, length, 1, at); }

static int synced(int descriptor, long call) {
    struct stat facts;
    int watched = ours(descriptor, &facts);
    if (watched) enter();
    int done = (int)syscall(call, descriptor);
    if (watched) {
        char whole[PATH_MAX];
        if (done == 0 && S_ISREG(facts.st_mode)) tell("F\t%lu\n", (unsigned long)facts.st_ino);
        else if (done == 0) tell("D\t%s\n", of_descriptor(descriptor, whole));
        leave();
    }
    return done;
}
int fsync(int descriptor) { return synced(descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return synced(descriptor, SYS_fdatasync); }

static int sized(int descriptor, off_t size) {
    struct stat facts;
    int watched = ours(descriptor, &facts);
    if (watched) enter();
    int done = (int)syscall(SYS_ftruncate, descriptor, size);
    if (watched) {
        if (done == 0) tell("T\t%lu\t%lld\n", (unsigned long)facts.st_ino, (long long)size);
        leave();
    }
    return done;
}
int ftruncate(int descriptor, off_t size) { return sized(descriptor, size); }
int ftruncate64(int descriptor, off64_t size) { return sized(descriptor, size); }

/* One call on a path, or on two. */
static int named(long call, const char *letter, int from, const char *path, int to, const char *second, long more) {
    char whole[PATH_MAX], other[PATH_MAX];
    const char *inside = log_descriptor < 0 ? NULL : of_path(from, path, whole);
    const char *there = inside && second ? of_path(to, second, other) : NULL;
    if (inside) enter();
    int done = (int)(second ? syscall(call, from, path, to, second, more) : syscall(call, from, path, more));
    if (inside) {
        if (done == 0) tell(second ? "%s\t%s\t%s\n" : "%s\t%s%s\n", letter, inside, second ? (there ? there : "") : "");
        leave();
    }
    return done;
}
int rename(const char *a, const char *b) { return named(SYS_renameat2, "R", AT_FDCWD, a, AT_FDCWD, b, 0); }
int renameat(int f, const char *a, int t, const char *b) { return named(SYS_renameat2, "R", f, a, t, b, 0); }
int link(const char *a, const char *b) { return named(SYS_linkat, "L", AT_FDCWD, a, AT_FDCWD, b, 0); }
int linkat(int f, const char *a, int t, const char *b, int flags) { return named(SYS_linkat, "L", f, a, t, b, flags); }
int unlink(const char *a) { return named(SYS_unlinkat, "U", AT_FDCWD, a, 0, NULL, 0); }
int unlinkat(int f, const char *a, int flags) {
    return named(SYS_unlinkat, flags & AT_REMOVEDIR ? "X" : "U", f, a, 0, NULL, flags);
}
int rmdir(const char *a) { return named(SYS_unlinkat, "X", AT_FDCWD, a, 0, NULL, AT_REMOVEDIR); }
int mkdir(const char *a, mode_t mode) { return named(SYS_mkdirat, "M", AT_FDCWD, a, 0, NULL, (long)mode); }
int mkdirat(int f, const char *a, mode_t mode) { return named(SYS_mkdirat, "M", f, a, 0, NULL, (long)mode); }

// A library to preload (LD_PRELOAD) into a program under test: its files hang as those of a dead network file system do.
//
// A call that opens or looks up a path P blocks while a file "P.hang" exists and is locked (flock(2), LOCK_EX), and then continues as if
// nothing had happened. The path is compared as the program writes it; symbolic links are not resolved. P itself need not exist. To use it:
//
//     LD_PRELOAD=.build/debug/libHangingFiles.so lanyard run --config lanyard.yaml
//     flock /etc/lanyard/password.hang cat    # from now on each open of /etc/lanyard/password waits
//     rm /etc/lanyard/password.hang           # and the end of cat: all of them continue
//
// A thread that waits sleeps in the kernel, so a `TestClock` sees that it does nothing.
//
// Tests start a process with `HangingFiles.launcher` (Tests/TestSupport). A waiting thread can be killed, as a thread that waits for NFS
// can. Covered are the calls by which lanyard and its libraries reach files by path: open, openat, stat, lstat, fstatat, fopen, each with
// its "64" name, and statx. A descriptor that is open already does not hang.
//
// Files that hang are those of network file systems. So statfs reports NFS for every path, and lanyard reads its files in intervals.

#define _GNU_SOURCE
#include "hanging_files.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/// Raw system calls only: the calls of this file must not wait for themselves.
static void wait_while_hung(int folder, const char *path) {
    char mark[PATH_MAX];
    size_t length = path ? strlen(path) : 0;
    if (length == 0 || length + sizeof ".hang" > sizeof mark) return;
    int saved = errno;
    memcpy(mark, path, length);
    memcpy(mark + length, ".hang", sizeof ".hang");
    int file = (int)syscall(SYS_openat, folder, mark, O_RDONLY | O_CLOEXEC, 0);
    if (file >= 0) {
        while (syscall(SYS_flock, file, LOCK_SH) != 0 && errno == EINTR) {}
        syscall(SYS_close, file);
    }
    errno = saved;
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    wait_while_hung(folder, path);
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(folder, path, flags, mode);
}

/// On the 64-bit machines that lanyard is built for, struct stat and struct stat64 are what the kernel fills in.
static int stat_at(int folder, const char *path, void *status, int flags) {
    wait_while_hung(folder, path);
    return (int)syscall(SYS_newfstatat, folder, path, status, flags);
}

int stat(const char *restrict path, struct stat *restrict status) { return stat_at(AT_FDCWD, path, status, 0); }

int stat64(const char *restrict path, struct stat64 *restrict status) { return stat_at(AT_FDCWD, path, status, 0); }

int lstat(const char *restrict path, struct stat *restrict status) {
    return stat_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int lstat64(const char *restrict path, struct stat64 *restrict status) {
    return stat_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict status, int flags) {
    return stat_at(folder, path, status, flags);
}

int fstatat64(int folder, const char *restrict path, struct stat64 *restrict status, int flags) {
    return stat_at(folder, path, status, flags);
}

int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict status) {
    wait_while_hung(folder, path);
    return (int)syscall(SYS_statx, folder, path, flags, mask, status);
}

/// NFS_SUPER_MAGIC of linux/magic.h.
static const long nfs = 0x6969;

int statfs(const char *path, struct statfs *status) {
    wait_while_hung(AT_FDCWD, path);
    int code = (int)syscall(SYS_statfs, path, status);
    if (code == 0) status->f_type = nfs;
    return code;
}

typedef FILE *(*opener)(const char *, const char *);

static FILE *open_stream(const char *name, const char *path, const char *mode) {
    wait_while_hung(AT_FDCWD, path);
    return ((opener)dlsym(RTLD_NEXT, name))(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) { return open_stream("fopen", path, mode); }

FILE *fopen64(const char *restrict path, const char *restrict mode) { return open_stream("fopen64", path, mode); }

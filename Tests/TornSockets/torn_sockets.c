#define _GNU_SOURCE
#include "torn_sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The sanitizer needs these calls for itself.
#define NOT_TORN 1
#endif
#endif

enum { plans_most = 512, descriptors_most = 65536 };

typedef struct {
    char path[108];
    uint16_t port;
    int local;
    lanyard_tear reads, writes;
    /// Sockets still to come that break at their first write.
    int breaks;
} plan;

/// One watched socket. Belongs to the thread of its loop.
typedef struct {
    int epoll;
    struct epoll_event event;
    lanyard_tear reads, writes;
    int64_t read, written;
    int is_broken;
} torn;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plan plans[plans_most];
static int plan_count;
static torn sockets[descriptors_most];
static _Atomic uint8_t is_torn[descriptors_most];
static _Atomic uint64_t tears;

static void note(plan next) {
    pthread_mutex_lock(&lock);
    int place = plan_count;
    for (int i = 0; i < plan_count; i++)
        if (plans[i].port == next.port && plans[i].local == next.local && strcmp(plans[i].path, next.path) == 0) place = i;
    if (place < plans_most) {
        plans[place] = next;
        if (place == plan_count) plan_count++;
    }
    pthread_mutex_unlock(&lock);
}

void lanyard_tear_port(uint16_t port, int local, lanyard_tear reads, lanyard_tear writes) {
    note((plan){.port = port, .local = local, .reads = reads, .writes = writes});
}

void lanyard_tear_path(const char *path, int local, lanyard_tear reads, lanyard_tear writes) {
    plan next = {.local = local, .reads = reads, .writes = writes};
    strncpy(next.path, path, sizeof next.path - 1);
    note(next);
}

void lanyard_break_path(const char *path, int count) {
    lanyard_tear whole = {.most = 0, .cut = -1};
    plan next = {.reads = whole, .writes = whole, .breaks = count};
    strncpy(next.path, path, sizeof next.path - 1);
    note(next);
}

uint64_t lanyard_tears(void) { return atomic_load(&tears); }

#ifndef NOT_TORN
static int named(const plan *each, const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET) return each->port != 0 && ntohs(((const struct sockaddr_in *)address)->sin_port) == each->port;
    if (address->ss_family == AF_UNIX) return each->path[0] != 0 && strcmp(((const struct sockaddr_un *)address)->sun_path, each->path) == 0;
    return 0;
}

static void watch(int epoll, int fd, const struct epoll_event *event) {
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    atomic_store(&is_torn[fd], 0);
    if (getsockname(fd, (struct sockaddr *)&own, &own_size) != 0) return;
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) != 0) return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < plan_count; i++) {
        if (!named(&plans[i], plans[i].local ? &own : &peer)) continue;
        sockets[fd] = (torn){.epoll = epoll, .event = *event, .reads = plans[i].reads, .writes = plans[i].writes};
        if (plans[i].breaks > 0) {
            plans[i].breaks--;
            sockets[fd].is_broken = 1;
        }
        atomic_store(&is_torn[fd], 1);
    }
    pthread_mutex_unlock(&lock);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    if (fd >= 0 && fd < descriptors_most) {
        if (operation == EPOLL_CTL_ADD) watch(epoll, fd, event);
        if (operation == EPOLL_CTL_MOD && atomic_load(&is_torn[fd])) sockets[fd].event = *event;
        if (operation == EPOLL_CTL_DEL) atomic_store(&is_torn[fd], 0);
    }
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

/// A closed descriptor leaves its epoll without a word, and its number may be a test's own socket next.
int close(int fd) {
    if (fd >= 0 && fd < descriptors_most) atomic_store(&is_torn[fd], 0);
    return (int)syscall(SYS_close, fd);
}

static int64_t limited(lanyard_tear tear, int64_t position, int64_t count) {
    if (tear.most > 0 && count > tear.most) count = tear.most;
    if (tear.cut > position && tear.cut < position + count) count = tear.cut - position;
    return count;
}

/// The socket is told of once more: what was torn off is still there.
static void arm(int fd) {
    atomic_fetch_add(&tears, 1);
    syscall(SYS_epoll_ctl, sockets[fd].epoll, EPOLL_CTL_MOD, fd, &sockets[fd].event);
}

static torn *find(int fd) {
    if (fd < 0 || fd >= descriptors_most || !atomic_load(&is_torn[fd])) return NULL;
    return &sockets[fd];
}

static ssize_t broken(void) {
    errno = EPIPE;
    return -1;
}

ssize_t recv(int fd, void *bytes, size_t count, int flags) {
    torn *socket = flags & MSG_PEEK ? NULL : find(fd);
    if (!socket) return syscall(SYS_recvfrom, fd, bytes, count, flags, NULL, NULL);
    int64_t most = limited(socket->reads, socket->read, (int64_t)count);
    ssize_t got = syscall(SYS_recvfrom, fd, bytes, (size_t)most, flags, NULL, NULL);
    if (got <= 0) return got;
    socket->read += got;
    if (got == most && (size_t)most < count) arm(fd);
    return got;
}

ssize_t send(int fd, const void *bytes, size_t count, int flags) {
    torn *socket = find(fd);
    if (!socket) return syscall(SYS_sendto, fd, bytes, count, flags, NULL, 0);
    if (socket->is_broken) return broken();
    int64_t most = limited(socket->writes, socket->written, (int64_t)count);
    ssize_t sent = syscall(SYS_sendto, fd, bytes, (size_t)most, flags, NULL, 0);
    if (sent <= 0) return sent;
    socket->written += sent;
    if (sent == most && (size_t)most < count) arm(fd);
    return sent;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    torn *socket = find(fd);
    if (!socket) return syscall(SYS_sendmsg, fd, message, flags);
    if (socket->is_broken) return broken();
    size_t total = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) total += message->msg_iov[i].iov_len;
    int64_t most = limited(socket->writes, socket->written, (int64_t)total);
    struct iovec runs[16];
    struct msghdr part = *message;
    size_t left = (size_t)most;
    part.msg_iov = runs;
    part.msg_iovlen = 0;
    for (size_t i = 0; i < message->msg_iovlen && i < 16 && left > 0; i++) {
        runs[i] = message->msg_iov[i];
        if (runs[i].iov_len > left) runs[i].iov_len = left;
        left -= runs[i].iov_len;
        part.msg_iovlen++;
    }
    ssize_t sent = syscall(SYS_sendmsg, fd, &part, flags);
    if (sent <= 0) return sent;
    socket->written += sent;
    if (sent == most && (size_t)most < total) arm(fd);
    return sent;
}
#endif

#define _GNU_SOURCE
#include "CLinux.h"

#include <malloc.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static _Thread_local void *thread_note;

void *lanyard_thread_note(void) { return thread_note; }
void lanyard_set_thread_note(void *note) { thread_note = note; }

int lanyard_accept(int listener, struct sockaddr *address, socklen_t *length) {
    return accept4(listener, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int lanyard_peer_credentials(int socket, uint32_t *uid, uint32_t *gid, int32_t *pid) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length)) return -1;
    *uid = peer.uid;
    *gid = peer.gid;
    *pid = peer.pid;
    return 0;
}

uint64_t lanyard_tcp_received(int socket) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length)) return 0;
    return info.tcpi_bytes_received;
}

/* TCP_ESTABLISHED of <netinet/tcp.h>, which cannot stand beside <linux/tcp.h>. */
enum { established = 1 };

int lanyard_tcp_has_end(int socket) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length)) return 0;
    return info.tcpi_state != established;
}

/* The identity of a connection as its other end has it: 0, or -1 if it is none of TCP. */
static int other_end(int socket, struct inet_diag_req_v2 *request) {
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t length = sizeof own;
    if (getsockname(socket, (struct sockaddr *)&own, &length)) return -1;
    length = sizeof other;
    if (getpeername(socket, (struct sockaddr *)&other, &length)) return -1;
    request->sdiag_family = own.ss_family;
    request->sdiag_protocol = IPPROTO_TCP;
    request->idiag_states = -1;
    request->id.idiag_cookie[0] = request->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (own.ss_family == AF_INET && other.ss_family == AF_INET) {
        const struct sockaddr_in *left = (void *)&other, *right = (void *)&own;
        memcpy(request->id.idiag_src, &left->sin_addr, sizeof left->sin_addr);
        memcpy(request->id.idiag_dst, &right->sin_addr, sizeof right->sin_addr);
        request->id.idiag_sport = left->sin_port;
        request->id.idiag_dport = right->sin_port;
        return 0;
    }
    if (own.ss_family == AF_INET6 && other.ss_family == AF_INET6) {
        const struct sockaddr_in6 *left = (void *)&other, *right = (void *)&own;
        memcpy(request->id.idiag_src, &left->sin6_addr, sizeof left->sin6_addr);
        memcpy(request->id.idiag_dst, &right->sin6_addr, sizeof right->sin6_addr);
        request->id.idiag_sport = left->sin6_port;
        request->id.idiag_dport = right->sin6_port;
        return 0;
    }
    return -1;
}

int lanyard_is_peer_orphaned(int socket_) {
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } request = {.head = {.nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST}};
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } reply;
    if (other_end(socket_, &request.body)) return 0;
    int diagnosis = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (diagnosis < 0) return 0;
    ssize_t count = -1;
    /* The kernel replies within the call that sends. */
    if (send(diagnosis, &request, sizeof request, 0) == sizeof request) count = recv(diagnosis, &reply, sizeof reply, 0);
    close(diagnosis);
    const struct inet_diag_msg *found = NLMSG_DATA(&reply.head);
    if (count < (ssize_t)NLMSG_LENGTH(sizeof *found) || reply.head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return 0;
    return found->idiag_inode == 0;
}

int lanyard_take_read_lease(int descriptor) {
    if (fcntl(descriptor, F_SETSIG, SIGURG)) return -1;
    return fcntl(descriptor, F_SETLEASE, F_RDLCK);
}

int64_t lanyard_file_system_type(const char *path) {
    struct statfs status;
    if (statfs(path, &status)) return -1;
    /* Some magic numbers exceed 2^31, and f_type is signed on some machines. */
    return (uint32_t)status.f_type;
}

int lanyard_cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return -1;
    return CPU_COUNT(&set);
}

int lanyard_set_not_dumpable(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

void lanyard_limit_resolver(void) {
    res_init();
    _res.retrans = 2;
    _res.retry = 1;
}

void lanyard_prepare_lookup(_Bool searches, int server_seconds) {
    _res.retrans = server_seconds;
    unsigned long options = RES_DNSRCH | RES_DEFNAMES;
    if (searches) _res.options |= options;
    else _res.options &= ~options;
}

static int argument_count;
static char **arguments;

/* glibc calls constructors with the arguments of main(). */
__attribute__((constructor)) static void keep_arguments(int count, char **values) {
    argument_count = count;
    arguments = values;
}

int lanyard_argument_count(void) { return argument_count; }

const char *lanyard_argument(int index) { return arguments[index]; }

char *const *lanyard_environment(void) { return environ; }

void lanyard_wipe(void *bytes, size_t count) { explicit_bzero(bytes, count); }

int64_t lanyard_clock(int clock) {
    struct timespec time = {0};
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void lanyard_timer_set(int timer, int64_t nanoseconds) {
    struct itimerspec setting = {
        .it_value = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, NULL);
}

int lanyard_hold_signals(const int *signals, int count) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < count; i++) sigaddset(&set, signals[i]);
    int descriptor = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (descriptor >= 0) pthread_sigmask(SIG_BLOCK, &set, NULL);
    return descriptor;
}

int lanyard_next_signal(int descriptor) {
    struct signalfd_siginfo information;
    ssize_t got;
    do got = read(descriptor, &information, sizeof information);
    while (got < 0 && errno == EINTR);
    return got == sizeof information ? (int)information.ssi_signo : 0;
}

int lanyard_open_standard_descriptors(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
        /* The kernel gives the lowest free number, which is this one. */
        if (open("/dev/null", descriptor == 0 ? O_RDONLY : O_WRONLY) < 0) return -1;
    }
    return 0;
}

void lanyard_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

void lanyard_return_memory(void) { malloc_trim(0); }

void lanyard_return_large_blocks(void) { mallopt(M_MMAP_THRESHOLD, 128 << 10); }

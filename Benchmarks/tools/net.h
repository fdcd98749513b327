/* What the programs of the benchmarks share: sockets of 127.0.0.1 that do not block, and one edge-triggered epoll
 * descriptor. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int poller;

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Reports of the descriptor come with `owner`. Registered once: no call of epoll_ctl belongs to a request. */
static inline void watch(int descriptor, void *owner) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = owner};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event)) fail("epoll_ctl");
}

static inline int new_socket(void) {
    int one = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) fail("socket");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return descriptor;
}

static inline struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* The connection is complete when the descriptor can be written. */
static inline int connect_to(int port) {
    struct sockaddr_in address = loopback(port);
    int descriptor = new_socket();
    if (connect(descriptor, (void *)&address, sizeof address) && errno != EINPROGRESS) fail("connect");
    return descriptor;
}

/* Connections inherit TCP_NODELAY. Begins to poll: the listener's reports have no owner. */
static inline int listen_on(int port) {
    struct sockaddr_in address = loopback(port);
    int one = 1, listener = new_socket();
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) fail("listen");
    poller = epoll_create1(EPOLL_CLOEXEC);
    watch(listener, NULL);
    return listener;
}

static inline int accept_from(int listener) { return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }

/* The value of a field; NULL: the head has none. The head ends with a zero byte. */
static inline const char *field(const char *head, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) || line[length] != ':') continue;
        line += length + 1;
        return line + strspn(line, " ");
    }
    return NULL;
}

static inline uint64_t content_length(const char *head) {
    const char *value = field(head, "Content-Length");
    return value ? strtoull(value, NULL, 10) : 0;
}

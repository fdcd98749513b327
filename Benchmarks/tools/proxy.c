/* The least that a proxy can do that still injects a token, as a measure for the others.
 *
 *     proxy PORT UPSTREAM_PORT TOKEN
 *
 * It checks nothing. Heads come in one read, bodies have a Content-Length, and a client sends its next request behind
 * the response. Upstream connections are kept and used again, the latest first. One thread.
 */
#include "net.h"

enum { BUFFER = 256 << 10 };

struct end {
    int descriptor;
    int is_client;
    int is_closed;           /* freed behind the events of this wait */
    int closes;              /* behind the response */
    int can_read;
    struct end *other;       /* the other end of the exchange */
    struct end *next;        /* of the idle upstream connections, or of the closed ends */
    int in_body;             /* of the message that arrives here */
    uint64_t body_left;
    char *queue;             /* what the socket has not taken yet */
    size_t queue_count, queue_sent;
};

static int upstream_port;
static char injected[512], input[BUFFER + 1], output[BUFFER + 1024];
static size_t injected_count;
static struct end *idle, *closed;

static struct end *new_end(int descriptor, int is_client) {
    struct end *e = calloc(1, sizeof *e);
    e->descriptor = descriptor;
    e->is_client = is_client;
    watch(descriptor, e);
    return e;
}

static void end(struct end *e) {
    if (!e || e->is_closed) return;
    for (struct end **place = &idle; *place; place = &(*place)->next)
        if (*place == e) {
            *place = e->next;
            break;
        }
    close(e->descriptor);
    e->is_closed = 1;
    e->next = closed;
    closed = e;
}

static void end_exchange(struct end *e) {
    end(e->other);
    end(e);
}

static struct end *take_upstream(void) {
    struct end *e = idle;
    if (!e) return new_end(connect_to(upstream_port), 0);
    idle = e->next;
    return e;
}

/* 0: the connection is broken. */
static int flush(struct end *e) {
    while (e->queue_sent < e->queue_count) {
        ssize_t sent = send(e->descriptor, e->queue + e->queue_sent, e->queue_count - e->queue_sent, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN;
        e->queue_sent += sent;
    }
    free(e->queue);
    e->queue = NULL;
    e->queue_count = e->queue_sent = 0;
    return 1;
}

/* Sends the bytes, or queues them. Nothing is read for an end that has a queue. 0: the connection is broken. */
static int put(struct end *e, const char *bytes, size_t count) {
    ssize_t sent = e->queue ? 0 : send(e->descriptor, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return 0;
    if (sent < 0) sent = 0;
    if ((size_t)sent == count) return 1;
    e->queue = realloc(e->queue, e->queue_count + count - sent);
    memcpy(e->queue + e->queue_count, bytes + sent, count - sent);
    e->queue_count += count - sent;
    return 1;
}

/* The exchange is complete. */
static void finish(struct end *client, struct end *upstream) {
    client->other = upstream->other = NULL;
    client->in_body = upstream->in_body = 0;
    upstream->next = idle;
    idle = upstream;
    if (client->closes && !client->queue) end(client);
}

/* Copies the head without Authorization and Connection, and with the token. Returns its length. */
static size_t rewrite(struct end *client, const char *head, const char *blank) {
    char *out = output;
    const char *run = head, *next;
    for (const char *line = strchr(head, '\n') + 1; line < blank + 2; line = next) {
        next = memchr(line, '\n', blank + 2 - line) + 1;
        int is_connection = !strncasecmp(line, "Connection:", 11);
        if (is_connection && memmem(line, next - line, "close", 5)) client->closes = 1;
        if (!is_connection && strncasecmp(line, "Authorization:", 14)) continue;
        out = mempcpy(out, run, line - run);
        run = next;
    }
    out = mempcpy(out, run, blank + 2 - run);
    out = mempcpy(out, injected, injected_count);
    return out - output;
}

/* 0: the exchange is broken. */
static int receive(struct end *e, char *bytes, size_t count) {
    if (!e->is_client && !e->other) return 0;
    size_t head = 0;
    if (!e->in_body) {
        char *blank = memmem(bytes, count, "\r\n\r\n", 4);
        if (!blank) return 0;
        head = blank + 4 - bytes;
        if (e->is_client) {
            size_t length = rewrite(e, bytes, blank);
            memcpy(output + length, blank + 4, count - head);
            blank[2] = 0;
            e->body_left = content_length(bytes);
            e->other = take_upstream();
            e->other->other = e;
            bytes = output;
            count = length + count - head;
            head = length;
        } else {
            char first = blank[2];
            blank[2] = 0;
            e->body_left = content_length(bytes);
            blank[2] = first;
        }
        e->in_body = 1;
    }
    if (!put(e->other, bytes, count) || count - head > e->body_left) return 0;
    e->body_left -= count - head;
    if (!e->is_client && !e->body_left) finish(e->other, e);
    return 1;
}

/* Reads while there are bytes and the other end takes them. */
static void pump(struct end *e) {
    while (e->can_read && !e->is_closed && !(e->other && e->other->queue)) {
        ssize_t count = recv(e->descriptor, input, BUFFER, 0);
        if (count < 0 && errno == EAGAIN) e->can_read = 0;
        else if (count <= 0) return end_exchange(e);
        else {
            input[count] = 0;
            if (count < BUFFER) e->can_read = 0;
            if (!receive(e, input, count)) return end_exchange(e);
        }
    }
}

static void handle(struct end *e, uint32_t events) {
    if (e->is_closed) return;
    if (events & EPOLLOUT && e->queue) {
        if (!flush(e)) return end_exchange(e);
        if (!e->queue && e->other) pump(e->other);
        if (!e->queue && !e->other && e->closes) return end(e);
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        e->can_read = 1;
        pump(e);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "proxy PORT UPSTREAM_PORT TOKEN\n"), 64;
    upstream_port = atoi(argv[2]);
    injected_count = snprintf(injected, sizeof injected, "Authorization: Bearer %s\r\n\r\n", argv[3]);
    int listener = listen_on(atoi(argv[1]));
    for (struct epoll_event events[256];;) {
        int count = epoll_wait(poller, events, 256, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr) handle(events[i].data.ptr, events[i].events);
            else
                for (int new; (new = accept_from(listener)) >= 0;) new_end(new, 1);
        }
        for (struct end *e; (e = closed); free(e)) {
            closed = e->next;
            free(e->queue);
        }
    }
}

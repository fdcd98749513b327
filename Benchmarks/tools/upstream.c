/* The upstream of the benchmarks. The target of a request is the size of its response: /1024.
 *
 *     upstream PORT TOKEN [CERTIFICATE KEY]      with files in PEM: TLS
 *
 * A request whose only Authorization is not `Bearer TOKEN` gets 401. So a proxy that does not inject the token, or lets
 * the client's own field pass, causes errors, never a good figure. `TOKEN.N` is the token, too, and each greater N is
 * printed: so a run sees that tokens have changed. One thread. Bodies have a Content-Length.
 */
#include "tls.h"

enum { HEAD_MAX = 4096, BODY_MAX = 16 << 20, READ_MAX = 256 << 10 };

struct connection {
    struct stream stream;
    size_t head_count;       /* bytes of the request's head so far */
    int in_body;             /* the head was read */
    uint64_t body_left;      /* bytes of the request's body to come */
    int status;
    char response[256];      /* head of the response; its body is of zeros */
    size_t response_head, response_count, sent;
    char head[HEAD_MAX];
};

static char zeros[BODY_MAX], input[READ_MAX], expected[1024];
static unsigned long newest;

static void end(struct connection *c) {
    close_stream(&c->stream);
    free(c);
}

static int is_authorized(const char *head) {
    const char *value = field(head, "Authorization");
    size_t length = strlen(expected);
    if (!value || strncmp(value, expected, length) || field(value, "Authorization")) return 0;
    value += length;
    if (*value == '.') {
        char *end;
        unsigned long number = strtoul(value + 1, &end, 10);
        if (number > newest) printf("token %lu\n", newest = number);
        value = end;
    }
    return *value == '\r';
}

static void read_head(struct connection *c) {
    const char *space = strchr(c->head, ' ');
    uint64_t size = space && space[1] == '/' ? strtoull(space + 2, NULL, 10) : 0;
    c->status = size <= BODY_MAX && is_authorized(c->head) ? 200 : 401;
    if (c->status != 200) size = 0;
    c->response_head = snprintf(
        c->response, sizeof c->response,
        "HTTP/1.1 %d %s\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n",
        c->status, c->status == 200 ? "OK" : "Unauthorized", (unsigned long long)size);
    c->response_count = c->response_head + size;
    c->body_left = content_length(c->head);
    c->in_body = 1;
}

static ssize_t send_parts(struct stream *stream, struct iovec *parts, int count) {
    if (stream->tls) return stream_send(stream, parts[0].iov_base, parts[0].iov_len);
    return sendmsg(stream->descriptor, &(struct msghdr){.msg_iov = parts, .msg_iovlen = count}, MSG_NOSIGNAL);
}

/* 0: the connection is broken. */
static int respond(struct connection *c) {
    while (c->sent < c->response_count) {
        struct iovec parts[2];
        size_t of_body = c->sent > c->response_head ? c->sent - c->response_head : 0;
        int count = 0;
        size_t head_left = c->sent < c->response_head ? c->response_head - c->sent : 0;
        if (head_left) parts[count++] = (struct iovec){c->response + c->sent, head_left};
        parts[count++] = (struct iovec){zeros + of_body, c->response_count - c->response_head - of_body};
        ssize_t sent = send_parts(&c->stream, parts, count);
        if (sent < 0) return errno == EAGAIN;
        c->sent += sent;
    }
    c->in_body = c->head_count = c->response_count = c->sent = 0;
    return 1;
}

/* Takes bytes of one request. 0: the connection is broken. */
static int receive(struct connection *c, const char *bytes, size_t count) {
    if (!c->in_body) {
        size_t before = c->head_count, room = HEAD_MAX - 1 - before, taken = count < room ? count : room;
        memcpy(c->head + before, bytes, taken);
        c->head[c->head_count += taken] = 0;
        char *blank = strstr(c->head, "\r\n\r\n");
        if (!blank) return taken == count;
        blank[2] = 0;
        count -= blank + 4 - c->head - before;
        read_head(c);
    }
    if (count > c->body_left) return 0;
    c->body_left -= count;
    return c->body_left > 0 || respond(c);
}

static void handle(struct connection *c, uint32_t events) {
    if (events & EPOLLOUT && c->response_count && !c->body_left && !respond(c)) return end(c);
    while (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        ssize_t count = stream_receive(&c->stream, input, READ_MAX);
        if (count < 0 && errno == EAGAIN) return;
        if (count <= 0 || !receive(c, input, count)) return end(c);
        // A record is shorter than the buffer, whatever comes behind it.
        if (!c->stream.tls && count < READ_MAX && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) return;
    }
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 5) return fprintf(stderr, "upstream PORT TOKEN [CERTIFICATE KEY]\n"), 64;
    snprintf(expected, sizeof expected, "Bearer %s", argv[2]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 5) {
        use_tls(TLS_server_method());
        if (SSL_CTX_use_certificate_chain_file(context, argv[3]) != 1
            || SSL_CTX_use_PrivateKey_file(context, argv[4], SSL_FILETYPE_PEM) != 1) fail("the certificate");
    }
    int listener = listen_on(atoi(argv[1]));
    for (struct epoll_event events[256];;) {
        int count = epoll_wait(poller, events, 256, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr) {
                handle(events[i].data.ptr, events[i].events);
                continue;
            }
            for (int new; (new = accept_from(listener)) >= 0;) {
                struct connection *c = calloc(1, sizeof *c);
                c->stream = open_stream(new, SSL_set_accept_state);
                watch(new, c);
            }
        }
    }
}

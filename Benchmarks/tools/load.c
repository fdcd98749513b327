/* The load of the benchmarks: each connection sends its next request when the response to the last one has come.
 *
 *     load [-c CONNECTIONS] [-s SECONDS | -n REQUESTS] [-r RATE] [-b RESPONSE_BYTES] [-u UPLOAD_BYTES] [-p ROUTES] [-kti] PORT
 *
 * -k: each request has a connection of its own, and asks for its close. -t: TLS; no certificate is checked.
 * -r: requests are due at this rate. A connection that has its response takes the next one, and the latency begins when
 * the request was due: so one that waits for a connection counts.
 * -p: the paths are /r0/ to those of so many routes, in turn, in place of one that asks for RESPONSE_BYTES.
 * -i: each connection sends one request, one connection after another, and stays open until the input ends.
 *
 * Prints one line of JSON. What is not a 200 with so many bytes is an error; 100 of them end the load. One thread.
 */
#include "tls.h"
#include <time.h>

enum { HEAD_MAX = 4096, READ_MAX = 256 << 10, SAMPLES_MAX = 4 << 20, ERRORS_MAX = 100 };

struct request {
    char *bytes;
    size_t count;
};

struct client {
    struct stream stream;
    const struct request *request;
    struct client *next;     /* of those that wait until a request is due */
    int is_waiting, is_busy; /* the second: a request was begun */
    uint64_t began;
    size_t sent;             /* bytes of the request */
    size_t head_count;       /* bytes of the response's head so far */
    int in_body;
    uint64_t body_left;
    char head[HEAD_MAX];
};

static int port, closes, stays;
static double rate;
static struct client *clients, *waiting;
static uint64_t response_bytes, limit = UINT64_MAX, start, started, done, errors, deadline = UINT64_MAX;
static char input[READ_MAX];
static struct request *requests; /* sent in turn */
static uint64_t routes;          /* 0: one path */
static uint32_t *samples;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static struct request make_request(const char *path, uint64_t upload) {
    char length[96] = "";
    const char *fields = "Content-Type: application/json\r\nContent-Length: ";
    if (upload) snprintf(length, sizeof length, "%s%llu\r\n", fields, (unsigned long long)upload);
    struct request request = {.bytes = malloc(HEAD_MAX + upload)};
    request.count = snprintf(
        request.bytes, HEAD_MAX,
        "%s /%s HTTP/1.1\r\nHost: api.example.test\r\nUser-Agent: lanyard-benchmark/1.0\r\n"
        "Accept: application/json, text/plain, */*\r\nAccept-Encoding: gzip, deflate, br\r\n"
        "Authorization: Bearer placeholder-that-must-not-reach-the-upstream\r\n"
        "X-Request-Id: 3b1f8a60-52c7-4e9d-8f04-6d1e7c92ab35\r\n%s%s\r\n",
        upload ? "POST" : "GET", path, length, closes ? "Connection: close\r\n" : "");
    request.bytes = realloc(request.bytes, request.count + upload);
    memset(request.bytes + request.count, 'x', upload);
    request.count += upload;
    return request;
}

static void make_requests(uint64_t upload) {
    requests = malloc((routes ? routes : 1) * sizeof *requests);
    for (uint64_t i = 0; i < (routes ? routes : 1); i++) {
        char path[32];
        snprintf(path, sizeof path, routes ? "r%llu/" : "%llu", (unsigned long long)(routes ? i : response_bytes));
        requests[i] = make_request(path, upload);
    }
}

static void reconnect(struct client *c) {
    if (c->stream.descriptor) close_stream(&c->stream);
    *c = (struct client){.stream = open_stream(connect_to(port), SSL_set_connect_state)};
    watch(c->stream.descriptor, c);
}

static void send_request(struct client *c) {
    while (c->sent < c->request->count) {
        ssize_t sent = stream_send(&c->stream, c->request->bytes + c->sent, c->request->count - c->sent);
        // A connection that is broken shows when its response is read.
        if (sent < 0) return;
        c->sent += sent;
    }
}

/* When the next request is to begin. */
static uint64_t due(void) { return rate > 0 ? start + started * 1e9 / rate : now(); }

static void begin(struct client *c) {
    uint64_t at = due();
    c->is_busy = 0;
    if (started == limit || at >= deadline || c->is_waiting || (stays && c->began)) return;
    if (at > now()) {
        c->is_waiting = 1;
        c->next = waiting;
        waiting = c;
        return;
    }
    c->request = &requests[routes ? started % routes : 0];
    started++;
    c->is_busy = 1;
    c->began = at;
    c->sent = c->head_count = c->in_body = 0;
    send_request(c);
}

static void record_error(struct client *c, const char *what) {
    fprintf(stderr, "%s: %.*s\n", what, (int)strcspn(c->head, "\r"), c->head);
    if (++errors >= ERRORS_MAX) exit(1);
    done++;
    reconnect(c);
}

static void finish(struct client *c) {
    if (done < SAMPLES_MAX) samples[done] = (now() - c->began) / 1000;
    done++;
    c->is_busy = 0;
    if (stays) return done < limit ? reconnect(&clients[done]) : (void)0;
    if (closes && started < limit) return reconnect(c);
    begin(c);
}

static void receive(struct client *c, const char *bytes, size_t count) {
    if (!c->in_body) {
        size_t before = c->head_count, room = HEAD_MAX - 1 - before, taken = count < room ? count : room;
        memcpy(c->head + before, bytes, taken);
        c->head[c->head_count += taken] = 0;
        char *blank = strstr(c->head, "\r\n\r\n");
        if (!blank) return taken < count ? record_error(c, "the head is too long") : (void)0;
        blank[2] = 0;
        count -= blank + 4 - c->head - before;
        c->in_body = 1;
        c->body_left = content_length(c->head);
        int is_expected = !strncmp(c->head + 8, " 200 ", 5) && c->body_left == response_bytes;
        if (!is_expected) return record_error(c, "an unexpected response");
    }
    if (count > c->body_left) return record_error(c, "bytes behind the response");
    if (!(c->body_left -= count)) finish(c);
}

static void handle(struct client *c, uint32_t events) {
    if (c->is_waiting && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) fail("a connection without a request ended");
    if (!c->is_busy && events & EPOLLOUT) begin(c);
    else if (c->is_busy) send_request(c);
    while (c->is_busy && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        ssize_t count = stream_receive(&c->stream, input, READ_MAX);
        // A request waits for the handshake, and this read may have ended it.
        if (count < 0 && errno == EAGAIN) return send_request(c);
        if (count <= 0) return record_error(c, "the connection ended before the response");
        receive(c, input, count);
        // A record is shorter than the buffer, whatever comes behind it.
        if (!c->stream.tls && count < READ_MAX) return;
    }
}

/* Begins what is due, and waits for events until the next request is. */
static int wait_for(struct epoll_event *events, int count) {
    for (struct client *c; (c = waiting) && due() <= now();) {
        waiting = c->next;
        c->is_waiting = 0;
        begin(c);
    }
    int64_t left = waiting ? (int64_t)(due() - now()) : 100000000;
    return epoll_pwait2(poller, events, count, &(struct timespec){.tv_nsec = left > 0 ? left : 0}, NULL);
}

static int compare(const void *a, const void *b) {
    uint32_t one = *(uint32_t *)a, other = *(uint32_t *)b;
    return (one > other) - (one < other);
}

static void report(uint64_t nanoseconds) {
    size_t count = done < SAMPLES_MAX ? done : SAMPLES_MAX;
    qsort(samples, count, sizeof *samples, compare);
    printf("{\"requests\": %llu, \"errors\": %llu, \"seconds\": %.6f, \"p50_us\": %u, \"p99_us\": %u, \"max_us\": %u}\n",
           (unsigned long long)done, (unsigned long long)errors, nanoseconds / 1e9, samples[count / 2],
           samples[count * 99 / 100], samples[count ? count - 1 : 0]);
}

static void read_options(int argc, char **argv, int *connections, double *seconds, uint64_t *upload) {
    for (int option; (option = getopt(argc, argv, "c:s:n:r:b:u:p:kti")) != -1;) switch (option) {
        case 'c': *connections = atoi(optarg); break;
        case 's': *seconds = atof(optarg); break;
        case 'n': limit = strtoull(optarg, NULL, 10); break;
        case 'r': rate = atof(optarg); break;
        case 'b': response_bytes = strtoull(optarg, NULL, 10); break;
        case 'u': *upload = strtoull(optarg, NULL, 10); break;
        case 'p': routes = strtoull(optarg, NULL, 10); break;
        case 'k': closes = 1; break;
        case 't': use_tls(TLS_client_method()); break;
        case 'i': stays = 1; break;
        default: exit(64);
    }
    if (stays) limit = *connections;
    if (optind + 1 == argc && (*seconds > 0 || limit != UINT64_MAX)) return;
    fprintf(stderr, "see the first lines of load.c\n");
    exit(64);
}

int main(int argc, char **argv) {
    int connections = 1;
    double seconds = 0;
    uint64_t upload = 0;
    read_options(argc, argv, &connections, &seconds, &upload);
    port = atoi(argv[optind]);
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    make_requests(upload);
    poller = epoll_create1(EPOLL_CLOEXEC);
    clients = calloc(connections, sizeof *clients);
    start = now();
    if (seconds > 0) deadline = start + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < (stays ? 1 : connections); i++) reconnect(&clients[i]);
    struct epoll_event events[256];
    while (done < limit && !(done == started && due() >= deadline)) {
        int count = wait_for(events, 256);
        for (int i = 0; i < count; i++) handle(events[i].data.ptr, events[i].events);
    }
    report(now() - start);
    fflush(stdout);
    while (stays && read(STDIN_FILENO, input, READ_MAX) > 0);
    return errors > 0;
}

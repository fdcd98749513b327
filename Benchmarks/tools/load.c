/* The load of the benchmarks: each connection sends its next request when the response to the last one has come.
 *
 *     load [-c CONNECTIONS] [-s SECONDS | -n REQUESTS] [-b RESPONSE_BYTES] [-u UPLOAD_BYTES] [-k] PORT
 *
 * -k: each request has a connection of its own, and asks for its close. Prints one line of JSON. What is not a 200 with
 * so many bytes is an error; 100 of them end the load. One thread.
 */
#include "net.h"
#include <time.h>

enum { HEAD_MAX = 4096, READ_MAX = 256 << 10, SAMPLES_MAX = 4 << 20, ERRORS_MAX = 100 };

struct client {
    int descriptor;
    int is_busy;             /* a request was begun */
    uint64_t began;
    size_t sent;             /* bytes of the request */
    size_t head_count;       /* bytes of the response's head so far */
    int in_body;
    uint64_t body_left;
    char head[HEAD_MAX];
};

static int port, closes;
static uint64_t response_bytes, limit = UINT64_MAX, started, done, errors, deadline = UINT64_MAX;
static char *request, input[READ_MAX];
static size_t request_count;
static uint32_t *samples;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void make_request(uint64_t upload) {
    char length[96] = "";
    const char *fields = "Content-Type: application/json\r\nContent-Length: ";
    if (upload) snprintf(length, sizeof length, "%s%llu\r\n", fields, (unsigned long long)upload);
    request = malloc(HEAD_MAX + upload);
    request_count = snprintf(
        request, HEAD_MAX,
        "%s /%llu HTTP/1.1\r\nHost: api.example.test\r\nUser-Agent: lanyard-benchmark/1.0\r\n"
        "Accept: application/json, text/plain, */*\r\nAccept-Encoding: gzip, deflate, br\r\n"
        "Authorization: Bearer placeholder-that-must-not-reach-the-upstream\r\n"
        "X-Request-Id: 3b1f8a60-52c7-4e9d-8f04-6d1e7c92ab35\r\n%s%s\r\n",
        upload ? "POST" : "GET", (unsigned long long)response_bytes, length, closes ? "Connection: close\r\n" : "");
    memset(request + request_count, 'x', upload);
    request_count += upload;
}

static void reconnect(struct client *c) {
    if (c->descriptor) close(c->descriptor);
    *c = (struct client){.descriptor = connect_to(port)};
    watch(c->descriptor, c);
}

static void send_request(struct client *c) {
    while (c->sent < request_count) {
        ssize_t sent = send(c->descriptor, request + c->sent, request_count - c->sent, MSG_NOSIGNAL);
        // A connection that is broken shows when its response is read.
        if (sent < 0) return;
        c->sent += sent;
    }
}

static void begin(struct client *c) {
    c->is_busy = 0;
    if (started == limit || now() >= deadline) return;
    started++;
    c->is_busy = 1;
    c->began = now();
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
    if (events & EPOLLOUT) {
        if (!c->is_busy) begin(c);
        else send_request(c);
    }
    while (c->is_busy && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        int descriptor = c->descriptor;
        ssize_t count = recv(descriptor, input, READ_MAX, 0);
        if (count < 0 && errno == EAGAIN) return;
        if (count <= 0) return record_error(c, "the connection ended before the response");
        receive(c, input, count);
        if (count < READ_MAX || c->descriptor != descriptor) return;
    }
}

static int compare(const void *a, const void *b) {
    uint32_t one = *(uint32_t *)a, other = *(uint32_t *)b;
    return (one > other) - (one < other);
}

static void report(uint64_t nanoseconds) {
    size_t count = done < SAMPLES_MAX ? done : SAMPLES_MAX;
    qsort(samples, count, sizeof *samples, compare);
    printf("{\"requests\": %llu, \"errors\": %llu, \"seconds\": %.6f, \"p50_us\": %u, \"p99_us\": %u}\n",
           (unsigned long long)done, (unsigned long long)errors, nanoseconds / 1e9, samples[count / 2],
           samples[count * 99 / 100]);
}

int main(int argc, char **argv) {
    int connections = 1;
    double seconds = 0;
    uint64_t upload = 0;
    for (int option; (option = getopt(argc, argv, "c:s:n:b:u:k")) != -1;) switch (option) {
        case 'c': connections = atoi(optarg); break;
        case 's': seconds = atof(optarg); break;
        case 'n': limit = strtoull(optarg, NULL, 10); break;
        case 'b': response_bytes = strtoull(optarg, NULL, 10); break;
        case 'u': upload = strtoull(optarg, NULL, 10); break;
        case 'k': closes = 1; break;
        default: return 64;
    }
    if (optind + 1 != argc || (seconds <= 0 && limit == UINT64_MAX))
        return fprintf(stderr, "see the first lines of load.c\n"), 64;
    port = atoi(argv[optind]);
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    make_request(upload);
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct client *clients = calloc(connections, sizeof *clients);
    uint64_t start = now();
    if (seconds > 0) deadline = start + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < connections; i++) reconnect(&clients[i]);
    struct epoll_event events[256];
    while (done < limit && !(done == started && now() >= deadline)) {
        int count = epoll_wait(poller, events, 256, 100);
        for (int i = 0; i < count; i++) handle(events[i].data.ptr, events[i].events);
    }
    report(now() - start);
    return errors > 0;
}

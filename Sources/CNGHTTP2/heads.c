/* The fields of a message as text, for the readers of HTTP/1.1: one set of rules for both. */
#include <string.h>
#include <strings.h>

#include "internal.h"

void lanyard_h2_forget_head(lanyard_h2 *session) {
    nghttp2_rcbuf **all[] = {&session->method,    &session->scheme,   &session->path,
                             &session->authority, &session->protocol, &session->status};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        if (*all[index]) nghttp2_rcbuf_decref(*all[index]);
        *all[index] = NULL;
    }
}

static int begin_head(nghttp2_session *raw, const nghttp2_frame *frame, void *context) {
    (void)raw;
    lanyard_h2 *session = context;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    session->head_start = session->work->text_count;
    session->is_reading_head = 1;
    session->list_bytes = session->list_fields = 0;
    session->is_never_indexed = 0;
    /* A table entry of one byte may stand for 4 KiB: what one call makes of its bytes has a limit. */
    session->head_flags = session->work->text_count > TEXT_BYTES_MAX ? LANYARD_H2_TOO_LARGE : 0;
    session->is_later_head = frame->headers.cat == NGHTTP2_HCAT_HEADERS;
    session->has_start_line = frame->headers.cat == NGHTTP2_HCAT_HEADERS && session->limits.is_server;
    session->work->cookie_count = 0;
    lanyard_h2_forget_head(session);
    return 0;
}

/* Eight bytes at once: the high bit of each place of `word` that has this byte, and perhaps of some above it. */
#define OF_EACH(byte) (0x0101010101010101u * (byte))
#define HAS_ZERO(word) (((word) - OF_EACH(1)) & ~(word) & OF_EACH(0x80))
#define HAS(word, byte) HAS_ZERO((word) ^ OF_EACH(byte))

static uint64_t load(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t not_of_word(uint64_t word) { return ((word - OF_EACH(0x21)) & ~word & OF_EACH(0x80)) | HAS(word, 0x7f); }

/* No byte that would end a word of the text. The last eight bytes are looked at whole, some of them a second time. */
static int is_word(nghttp2_vec bytes) {
    if (bytes.len >= 8) {
        for (size_t place = 0; place + 8 < bytes.len; place += 8)
            if (not_of_word(load(bytes.base + place))) return 0;
        return !not_of_word(load(bytes.base + bytes.len - 8));
    }
    for (size_t place = 0; place < bytes.len; place++)
        if (bytes.base[place] <= 0x20 || bytes.base[place] == 0x7f) return 0;
    return bytes.len > 0;
}

static uint64_t not_of_line(uint64_t word) { return HAS_ZERO(word) | HAS(word, '\r') | HAS(word, '\n'); }

/* No byte that would end a line of it. */
static int is_line(nghttp2_vec bytes) {
    if (bytes.len >= 8) {
        for (size_t place = 0; place + 8 < bytes.len; place += 8)
            if (not_of_line(load(bytes.base + place))) return 0;
        return !not_of_line(load(bytes.base + bytes.len - 8));
    }
    for (size_t place = 0; place < bytes.len; place++)
        if (bytes.base[place] == '\r' || bytes.base[place] == '\n' || bytes.base[place] == 0) return 0;
    return 1;
}

/* A whole field line. 0: there is no memory. */
static int write_line(lanyard_h2_workspace *work, nghttp2_vec name, nghttp2_vec value) {
    size_t count = name.len + value.len + 4;
    if (!lanyard_h2_reserve(&work->text, work->text_count, &work->text_capacity, count)) return 0;
    uint8_t *place = work->text + work->text_count;
    memcpy(place, name.base, name.len);
    place += name.len;
    *place++ = ':';
    *place++ = ' ';
    memcpy(place, value.base, value.len);
    place += value.len;
    *place++ = '\r';
    *place = '\n';
    work->text_count += count;
    return 1;
}

static nghttp2_vec vector(nghttp2_rcbuf *buffer) {
    nghttp2_vec none = {NULL, 0};
    return buffer ? nghttp2_rcbuf_get_buf(buffer) : none;
}

static int write_text(lanyard_h2_workspace *work, const char *text) { return lanyard_h2_write(work, text, strlen(text)); }

/* What makes the head of an extended CONNECT a request for an upgrade. 0: there is no memory. */
static int write_upgrade(lanyard_h2_workspace *work, nghttp2_vec protocol) {
    return write_text(work, "upgrade: ") && lanyard_h2_write(work, protocol.base, protocol.len) &&
           write_text(work, "\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n");
}

/* The pseudo-fields as a start line and `Host`. 0: there is no memory. */
static int write_start(lanyard_h2 *session) {
    if (session->has_start_line) return 1;
    session->has_start_line = 1;
    lanyard_h2_workspace *work = session->work;
    nghttp2_vec authority = vector(session->authority);
    if (!session->limits.is_server) {
        /* Behind the final head there are trailers alone. */
        if (session->is_later_head && !session->status) return 1;
        nghttp2_vec status = vector(session->status);
        if (!is_word(status)) session->head_flags |= LANYARD_H2_MALFORMED;
        return lanyard_h2_write(work, "HTTP/1.1 ", 9) && lanyard_h2_write(work, status.base, status.len) &&
               lanyard_h2_write(work, " \r\n", 3);
    }
    nghttp2_vec method = vector(session->method), path = vector(session->path), protocol = vector(session->protocol);
    /* CONNECT has the authority alone. */
    if (!session->path) path = authority;
    nghttp2_vec scheme = vector(session->scheme);
    size_t scheme_length = session->limits.is_secure ? 5 : 4;
    if (session->scheme && (scheme.len != scheme_length || strncasecmp((const char *)scheme.base, "https", scheme_length)))
        session->head_flags |= LANYARD_H2_OTHER_SCHEME;
    if (!is_word(method) || !is_word(path) || (session->authority && !is_word(authority)) ||
        (session->protocol && !is_word(protocol)))
        session->head_flags |= LANYARD_H2_MALFORMED;
    if (session->head_flags) return 1;
    /* The codec permits no other method with a protocol (RFC 8441 section 4). */
    if (session->protocol) method = (nghttp2_vec){(uint8_t *)"GET", 3};
    if (!lanyard_h2_write(work, method.base, method.len) || !lanyard_h2_write(work, " ", 1) ||
        !lanyard_h2_write(work, path.base, path.len) || !lanyard_h2_write(work, " HTTP/1.1\r\n", 11))
        return 0;
    if (!session->authority) return 1;
    return lanyard_h2_write(work, "host: ", 6) && lanyard_h2_write(work, authority.base, authority.len) &&
           lanyard_h2_write(work, "\r\n", 2) && (!session->protocol || write_upgrade(work, protocol));
}

static int keep(nghttp2_rcbuf **place, nghttp2_rcbuf *value) {
    if (*place) nghttp2_rcbuf_decref(*place);
    nghttp2_rcbuf_incref(value);
    *place = value;
    return 0;
}

static int add_pseudo_field(lanyard_h2 *session, nghttp2_vec name, nghttp2_rcbuf *value) {
    if (name.len == 7 && memcmp(name.base, ":method", 7) == 0) return keep(&session->method, value);
    if (name.len == 7 && memcmp(name.base, ":scheme", 7) == 0) return keep(&session->scheme, value);
    if (name.len == 5 && memcmp(name.base, ":path", 5) == 0) return keep(&session->path, value);
    if (name.len == 9 && memcmp(name.base, ":protocol", 9) == 0) return keep(&session->protocol, value);
    if (name.len == 10 && memcmp(name.base, ":authority", 10) == 0) return keep(&session->authority, value);
    if (name.len == 7 && memcmp(name.base, ":status", 7) == 0) return keep(&session->status, value);
    return 0;
}

static int add_crumb(lanyard_h2_workspace *work, nghttp2_vec value) {
    if (!lanyard_h2_reserve(&work->cookie, work->cookie_count, &work->cookie_capacity, value.len + 2)) return 0;
    if (work->cookie_count > 0) {
        memcpy(work->cookie + work->cookie_count, "; ", 2);
        work->cookie_count += 2;
    }
    memcpy(work->cookie + work->cookie_count, value.base, value.len);
    work->cookie_count += value.len;
    return 1;
}

static int add_field(
    nghttp2_session *raw, const nghttp2_frame *frame, nghttp2_rcbuf *name_buffer, nghttp2_rcbuf *value_buffer,
    uint8_t flags, void *context) {
    (void)raw;
    lanyard_h2 *session = context;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    lanyard_h2_workspace *work = session->work;
    nghttp2_vec name = nghttp2_rcbuf_get_buf(name_buffer), value = nghttp2_rcbuf_get_buf(value_buffer);
    session->list_bytes += name.len + value.len + 32;
    session->list_fields++;
    /* The credential of the peer's own is not forwarded, and the codec never indexes ours. */
    int is_credential = name.len == 13 && memcmp(name.base, "authorization", 13) == 0;
    if (flags & NGHTTP2_NV_FLAG_NO_INDEX && !is_credential) session->is_never_indexed = 1;
    size_t list_max = session->limits.list_bytes_max;
    if (session->list_bytes > 4 * list_max) {
        session->failure = LANYARD_H2_LIST_TOO_LONG;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (session->list_bytes > list_max || session->list_fields > session->limits.list_fields_max)
        session->head_flags |= LANYARD_H2_TOO_LARGE;
    /* The rest is decoded, because the table of the connection needs it, and not kept. */
    if (session->head_flags) return 0;
    if (name.len > 0 && name.base[0] == ':') return add_pseudo_field(session, name, value_buffer);
    if (!write_start(session)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!is_word(name) || memchr(name.base, ':', name.len) || !is_line(value)) session->head_flags |= LANYARD_H2_MALFORMED;
    if (session->head_flags) return 0;
    /* The key is this side's, since the other one has none (RFC 8441 section 5). */
    if (session->protocol && name.len == 17 && memcmp(name.base, "sec-websocket-key", 17) == 0) return 0;
    if (name.len == 6 && memcmp(name.base, "cookie", 6) == 0)
        return add_crumb(work, value) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    if (session->authority && name.len == 4 && memcmp(name.base, "host", 4) == 0) {
        nghttp2_vec authority = vector(session->authority);
        int is_same = authority.len == value.len &&
                      strncasecmp((const char *)authority.base, (const char *)value.base, value.len) == 0;
        if (!is_same) session->head_flags |= LANYARD_H2_MALFORMED;
        return 0;
    }
    return write_line(work, name, value) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int lanyard_h2_end_head(lanyard_h2 *session, const nghttp2_frame *frame) {
    lanyard_h2_workspace *work = session->work;
    int is_trailers = frame->headers.cat == NGHTTP2_HCAT_HEADERS && session->limits.is_server;
    if (!session->head_flags && !write_start(session)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (session->head_flags) {
        session->counts.resets++;
        work->text_count = session->head_start;
    }
    int has_cookie = work->cookie_count > 0 && !session->head_flags;
    if (has_cookie &&
        (!lanyard_h2_write(work, "cookie: ", 8) || !lanyard_h2_write(work, work->cookie, work->cookie_count) ||
         !lanyard_h2_write(work, "\r\n", 2)))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!session->head_flags && !lanyard_h2_write(work, "\r\n", 2)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!session->limits.is_server && session->is_later_head && !session->status) is_trailers = 1;
    lanyard_h2_event *event = lanyard_h2_add_event(session, is_trailers ? LANYARD_H2_TRAILERS : LANYARD_H2_HEAD, frame->hd.stream_id);
    if (!event) return NGHTTP2_ERR_CALLBACK_FAILURE;
    event->flags = session->head_flags | (frame->hd.flags & NGHTTP2_FLAG_END_STREAM ? LANYARD_H2_ENDS : 0) |
                   (session->is_never_indexed ? LANYARD_H2_NEVER_INDEXED : 0) |
                   (session->protocol ? LANYARD_H2_CONNECT : 0);
    event->bytes = (const uint8_t *)(uintptr_t)session->head_start;
    event->count = work->text_count - session->head_start;
    session->is_reading_head = 0;
    lanyard_h2_forget_head(session);
    if (session->limits.is_server && !is_trailers)
        nghttp2_session_set_stream_user_data(session->session, frame->hd.stream_id, lanyard_h2_of_place(work->event_count - 1));
    return 0;
}

static int on_invalid_field(
    nghttp2_session *raw, const nghttp2_frame *frame, nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags,
    void *context) {
    (void)raw, (void)frame, (void)name, (void)value, (void)flags;
    lanyard_h2 *session = context;
    session->is_reading_head = 0;
    session->work->text_count = session->head_start;
    /* Without this the codec would leave the field out. */
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

void lanyard_h2_hear_heads(nghttp2_session_callbacks *callbacks) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_head);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, add_field);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_field);
}

/* A head that began in an earlier call. */
int lanyard_h2_restore_head(lanyard_h2 *session) {
    lanyard_h2_workspace *work = session->work;
    if (!session->is_reading_head) return 1;
    session->head_start = 0;
    if (!session->partial) return 1;
    int is_restored = lanyard_h2_write(work, session->partial, session->partial_text) &&
                      lanyard_h2_reserve(&work->cookie, 0, &work->cookie_capacity, session->partial_cookie);
    if (!is_restored) return 0;
    memcpy(work->cookie, session->partial + session->partial_text, session->partial_cookie);
    work->cookie_count = session->partial_cookie;
    return 1;
}

int lanyard_h2_keep_head(lanyard_h2 *session) {
    lanyard_h2_workspace *work = session->work;
    lanyard_h2_drop(session->partial);
    session->partial = NULL;
    if (!session->is_reading_head) return 1;
    session->partial_text = work->text_count - session->head_start;
    session->partial_cookie = work->cookie_count;
    if (session->partial_text + session->partial_cookie == 0) return 1;
    session->partial = lanyard_h2_take(session->partial_text + session->partial_cookie, 0);
    if (!session->partial) return 0;
    memcpy(session->partial, work->text + session->head_start, session->partial_text);
    memcpy(session->partial + session->partial_text, work->cookie, session->partial_cookie);
    return 1;
}

#include <string.h>

#include "internal.h"

static nghttp2_session_callbacks *new_callbacks(void) {
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) return NULL;
    lanyard_h2_hear_heads(callbacks);
    lanyard_h2_hear_frames(callbacks);
    return callbacks;
}

static nghttp2_option *new_options(void) {
    nghttp2_option *options;
    if (nghttp2_option_new(&options) != 0) return NULL;
    nghttp2_option_set_no_auto_window_update(options, 1);
    nghttp2_option_set_no_closed_streams(options, 1);
    /* The limits of heads are ours: beyond this the codec would drop a head without a word. */
    nghttp2_option_set_max_send_header_block_length(options, 16 << 20);
    /* Before the peer's first SETTINGS (H26). */
    nghttp2_option_set_peer_max_concurrent_streams(options, 100);
    /* Its own limit would end the connection with INTERNAL_ERROR: ours is counted over what it reports. */
    nghttp2_option_set_stream_reset_rate_limit(options, UINT32_MAX, UINT32_MAX);
    return options;
}

static int submit_settings(lanyard_h2 *session) {
    const lanyard_h2_limits *limits = &session->limits;
    nghttp2_settings_entry entries[6];
    size_t count = 0;
    if (limits->is_server) {
        /* The codec would end the connection of a client that opens one more: `announce` writes the limit over this. */
        entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_UNLIMITED};
        entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1};
        if (limits->takes_connect)
            entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1};
    } else {
        entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
    }
    entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->stream_window};
    entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->list_bytes_max};
    int code = nghttp2_submit_settings(session->session, NGHTTP2_FLAG_NONE, entries, count);
    if (code != 0) return code;
    return nghttp2_session_set_local_window_size(
        session->session, NGHTTP2_FLAG_NONE, 0, (int32_t)limits->connection_window);
}

lanyard_h2 *lanyard_h2_new(const lanyard_h2_limits *limits) {
    lanyard_h2 *session = lanyard_h2_take(sizeof *session, 1);
    if (!session) return NULL;
    session->limits = *limits;
    session->frame_left = limits->is_server ? PREFACE_BYTES : 0;
    nghttp2_mem memory = lanyard_h2_memory(&session->codec_bytes);
    nghttp2_session_callbacks *callbacks = new_callbacks();
    nghttp2_option *options = new_options();
    int code = NGHTTP2_ERR_NOMEM;
    if (callbacks && options)
        code = limits->is_server
                   ? nghttp2_session_server_new3(&session->session, callbacks, session, options, &memory)
                   : nghttp2_session_client_new3(&session->session, callbacks, session, options, &memory);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(options);
    if (code == 0 && submit_settings(session) == 0) return session;
    lanyard_h2_free(session);
    return NULL;
}

void lanyard_h2_free(lanyard_h2 *session) {
    if (!session) return;
    lanyard_h2_forget_head(session);
    lanyard_h2_drop_literal(session);
    nghttp2_session_del(session->session);
    lanyard_h2_drop(session->partial);
    lanyard_h2_drop(session->closed);
    lanyard_h2_drop(session);
}

size_t lanyard_h2_bytes(const lanyard_h2 *session) {
    return session->codec_bytes + (session->partial ? session->partial_text + session->partial_cookie : 0);
}

nghttp2_session *lanyard_h2_session(lanyard_h2 *session) { return session->session; }

int lanyard_h2_receive(lanyard_h2 *session, lanyard_h2_workspace *workspace, const uint8_t *bytes, size_t count) {
    lanyard_h2_clear(workspace);
    session->work = workspace;
    if (!lanyard_h2_restore_head(session)) return NGHTTP2_ERR_NOMEM;
    int code = lanyard_h2_feed(session, bytes, count);
    int is_kept = lanyard_h2_keep_head(session);
    session->work = NULL;
    for (size_t index = 0; index < workspace->event_count; index++) {
        lanyard_h2_event *event = &workspace->events[index];
        if (event->kind == LANYARD_H2_HEAD || event->kind == LANYARD_H2_TRAILERS)
            event->bytes = workspace->text + (uintptr_t)event->bytes;
    }
    if (code != 0) return code;
    return is_kept ? 0 : NGHTTP2_ERR_NOMEM;
}

lanyard_h2_fault lanyard_h2_failure(const lanyard_h2 *session) { return session->failure; }

int lanyard_h2_is_within_head(const lanyard_h2 *session) { return session->is_reading_head; }

lanyard_h2_counts lanyard_h2_take_counts(lanyard_h2 *session) {
    lanyard_h2_counts counts = session->counts;
    memset(&session->counts, 0, sizeof session->counts);
    return counts;
}

int lanyard_h2_adopt(lanyard_h2 *session, int32_t stream, void *owner) {
    return nghttp2_session_set_stream_user_data(session->session, stream, owner) == 0;
}

size_t lanyard_h2_closed_count(const lanyard_h2 *session) { return session->closed_count; }

void *lanyard_h2_take_closed(lanyard_h2 *session, uint32_t *code) {
    if (session->closed_count == 0) return NULL;
    lanyard_h2_closed last = session->closed[--session->closed_count];
    *code = last.code;
    return last.owner;
}

/* Writes the limit of streams into the first SETTINGS: those above it are refused one by one (H26, H41). */
static void announce(lanyard_h2 *session, uint8_t *frame, size_t length) {
    if (session->has_announced || !session->limits.is_server) return;
    session->has_announced = 1;
    uint32_t streams_max = session->limits.streams_max;
    for (size_t place = HEADER_BYTES; place + 6 <= length; place += 6) {
        if (frame[place] != 0 || frame[place + 1] != NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) continue;
        for (int byte = 0; byte < 4; byte++) frame[place + 2 + byte] = (uint8_t)(streams_max >> (24 - 8 * byte));
    }
}

ssize_t lanyard_h2_produce(lanyard_h2 *session, uint8_t *room, size_t room_count) {
    size_t count = 0;
    while (room_count - count >= LANYARD_H2_FRAME_MAX) {
        const uint8_t *frame;
        ssize_t length = nghttp2_session_mem_send(session->session, &frame);
        if (length < 0) return length;
        if (length == 0) break;
        memcpy(room + count, frame, (size_t)length);
        announce(session, room + count, (size_t)length);
        if (session->literal.stream) length = lanyard_h2_put_literal(session, room + count, (size_t)length);
        if (length < 0) return length;
        count += (size_t)length;
    }
    return (ssize_t)count;
}

/* Bodies */

static size_t copy_run(uint8_t *room, size_t room_count, const uint8_t **bytes, size_t *count) {
    size_t amount = *count < room_count ? *count : room_count;
    if (amount == 0) return 0;
    memcpy(room, *bytes, amount);
    *bytes += amount;
    *count -= amount;
    return amount;
}

static ssize_t read_source(
    nghttp2_session *raw, int32_t stream, uint8_t *room, size_t room_count, uint32_t *flags,
    nghttp2_data_source *place, void *context) {
    (void)raw, (void)stream, (void)context;
    lanyard_h2_source *source = place->ptr;
    size_t count = copy_run(room, room_count, &source->first, &source->first_count);
    count += copy_run(room + count, room_count - count, &source->second, &source->second_count);
    source->framed += count;
    int is_empty = source->first_count + source->second_count == 0;
    if (is_empty && source->ends) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (source->has_trailers) *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        source->has_ended = 1;
    } else if (count == 0) {
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)count;
}

int lanyard_h2_submit_response(
    lanyard_h2 *session, int32_t stream, const nghttp2_nv *fields, size_t count, lanyard_h2_source *source) {
    nghttp2_data_provider provider = {{.ptr = source}, read_source};
    return nghttp2_submit_response(session->session, stream, fields, count, source ? &provider : NULL);
}

int32_t lanyard_h2_submit_request(
    lanyard_h2 *session, const nghttp2_nv *fields, size_t count, lanyard_h2_source *source, void *owner) {
    nghttp2_data_provider provider = {{.ptr = source}, read_source};
    if (count == 0) return NGHTTP2_ERR_INVALID_ARGUMENT;
    /* The caller's array has its value back when this returns. */
    nghttp2_nv *last = (nghttp2_nv *)&fields[count - 1], kept = *last;
    int is_literal = lanyard_h2_begin_literal(session, (nghttp2_nv *)fields, count);
    int32_t stream = nghttp2_submit_request(session->session, NULL, fields, count, source ? &provider : NULL, owner);
    *last = kept;
    if (is_literal && stream > 0) session->literal.stream = stream;
    if (stream > 0 && session->reset_credit < RESET_CREDIT_MAX) session->reset_credit++;
    return stream;
}

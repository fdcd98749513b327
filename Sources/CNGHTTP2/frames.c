#include <string.h>

#include "internal.h"

/* What the header of a frame says, before the codec has it. */
typedef struct {
    size_t length;
    uint8_t type, flags;
    int32_t stream;
} frame_header;

static frame_header read_header(const uint8_t *bytes) {
    frame_header header = {
        (size_t)bytes[0] << 16 | (size_t)bytes[1] << 8 | bytes[2], bytes[3], bytes[4],
        (int32_t)((uint32_t)(bytes[5] & 0x7f) << 24 | (uint32_t)bytes[6] << 16 | (uint32_t)bytes[7] << 8 | bytes[8])};
    return header;
}

/* A number below the latest one that was never a stream's (RFC 9113 5.1.1). Older ones than are known pass. */
static int is_skipped(lanyard_h2 *session, int32_t stream) {
    size_t known = session->opened_count < OPENED_MAX ? session->opened_count : OPENED_MAX;
    if (known == 0 || stream > session->opened[(session->opened_count - 1) % OPENED_MAX]) {
        session->opened[session->opened_count++ % OPENED_MAX] = stream;
        return 0;
    }
    for (size_t back = 1; back <= known; back++) {
        int32_t opened = session->opened[(session->opened_count - back) % OPENED_MAX];
        if (opened <= stream) return opened < stream;
    }
    return 0;
}

/* Counts a frame. 0: the connection ends, for the codec would let it pass, or end without a word. */
static int passes(lanyard_h2 *session, frame_header header) {
    lanyard_h2_counts *counts = &session->counts;
    if (header.type != NGHTTP2_CONTINUATION) session->continuations = 0;
    switch (header.type) {
    case NGHTTP2_DATA:
        if (header.length == 0 && !(header.flags & NGHTTP2_FLAG_END_STREAM)) counts->controls++;
        break;
    case NGHTTP2_HEADERS:
        if (session->limits.is_server && header.stream & 1 && is_skipped(session, header.stream))
            return 0;
        break;
    case NGHTTP2_CONTINUATION:
        /* H39 */
        if (++session->continuations <= CONTINUATIONS_MAX) break;
        session->failure = LANYARD_H2_TOO_MANY_CONTINUATIONS;
        return 0;
    case NGHTTP2_GOAWAY: break;
    case NGHTTP2_PRIORITY:
        counts->controls++;
        if (header.stream == 0) return 0;
        break;
    /* `on_frame` counts it: the codec may refuse what came before. */
    case NGHTTP2_RST_STREAM: break;
    case NGHTTP2_WINDOW_UPDATE: counts->window_updates++; break;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
    default: counts->controls++; break;
    }
    return 1;
}

static int feed_run(lanyard_h2 *session, const uint8_t *bytes, size_t count) {
    if (count == 0) return 0;
    ssize_t read = nghttp2_session_mem_recv(session->session, bytes, count);
    return read < 0 ? (int)read : 0;
}

static int begin_frame(lanyard_h2 *session, const uint8_t *bytes) {
    frame_header header = read_header(bytes);
    session->frame_left = header.length;
    return passes(session, header) ? 0 : NGHTTP2_ERR_PROTO;
}

/* Headers of frames reach the codec whole: 1.52 counts a CONTINUATION at each piece of its header. */
int lanyard_h2_feed(lanyard_h2 *session, const uint8_t *bytes, size_t count) {
    size_t start = 0, place = 0;
    int code = 0;
    while (place < count && code == 0) {
        size_t left = count - place;
        if (session->frame_left > 0) {
            size_t amount = session->frame_left < left ? session->frame_left : left;
            session->frame_left -= amount;
            place += amount;
            continue;
        }
        if (session->header_count == 0 && left >= HEADER_BYTES) {
            code = begin_frame(session, bytes + place);
            if (code == 0) place += HEADER_BYTES;
            continue;
        }
        code = feed_run(session, bytes + start, place - start);
        if (code != 0) return code;
        size_t amount = HEADER_BYTES - session->header_count < left ? HEADER_BYTES - session->header_count : left;
        memcpy(session->header + session->header_count, bytes + place, amount);
        session->header_count += amount;
        start = place += amount;
        if (session->header_count < HEADER_BYTES) return 0;
        session->header_count = 0;
        code = begin_frame(session, session->header);
        if (code == 0) code = feed_run(session, session->header, HEADER_BYTES);
    }
    int fed = feed_run(session, bytes + start, place - start);
    /* What the codec refuses came before the frame that is refused here. */
    if (fed != 0 && session->failure == LANYARD_H2_TOO_MANY_CONTINUATIONS) session->failure = LANYARD_H2_MALFORMED_BYTES;
    return code != 0 ? code : fed;
}

static int on_frame(nghttp2_session *raw, const nghttp2_frame *frame, void *context) {
    (void)raw;
    lanyard_h2 *session = context;
    lanyard_h2_workspace *work = session->work;
    lanyard_h2_event *event;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS: return lanyard_h2_end_head(session, frame);
    case NGHTTP2_DATA:
        if (frame->hd.length > frame->data.padlen) session->counts.data_received++;
        if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
            /* Padding alone. */
            if (frame->hd.length > 0 && frame->hd.length == frame->data.padlen) session->counts.controls++;
            return 0;
        }
        event = work->event_count > 0 ? &work->events[work->event_count - 1] : NULL;
        if (!event || event->kind != LANYARD_H2_DATA || event->stream != frame->hd.stream_id)
            event = lanyard_h2_add_event(session, LANYARD_H2_END, frame->hd.stream_id);
        if (!event) return NGHTTP2_ERR_CALLBACK_FAILURE;
        event->flags |= LANYARD_H2_ENDS;
        return 0;
    case NGHTTP2_RST_STREAM:
        /* A server may end each of our requests so, once, also behind the end of its response, when the codec has forgotten the
           stream (H23, H42). */
        if (session->reset_credit > 0)
            session->reset_credit--;
        else
            session->counts.resets++;
        return 0;
    case NGHTTP2_SETTINGS:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) return 0;
        return lanyard_h2_add_event(session, LANYARD_H2_SETTINGS, 0) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    case NGHTTP2_PING:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) return 0;
        return lanyard_h2_add_event(session, LANYARD_H2_PING_ACK, 0) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    case NGHTTP2_GOAWAY:
        event = lanyard_h2_add_event(session, LANYARD_H2_GOAWAY, 0);
        if (!event) return NGHTTP2_ERR_CALLBACK_FAILURE;
        event->stream = frame->goaway.last_stream_id;
        event->code = frame->goaway.error_code;
        return 0;
    default: return 0;
    }
}

static int on_data(
    nghttp2_session *raw, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t count, void *context) {
    (void)raw, (void)flags;
    lanyard_h2_event *event = lanyard_h2_add_event(context, LANYARD_H2_DATA, stream);
    if (!event) return NGHTTP2_ERR_CALLBACK_FAILURE;
    event->bytes = bytes;
    event->count = count;
    return 0;
}

static int on_close(nghttp2_session *raw, int32_t stream, uint32_t code, void *context) {
    lanyard_h2 *session = context;
    void *owner = nghttp2_session_get_stream_user_data(raw, stream);
    if (!owner || lanyard_h2_is_place(owner)) return 0;
    if (session->closed_count == session->closed_capacity) {
        size_t larger = session->closed_capacity ? session->closed_capacity * 2 : 16;
        lanyard_h2_closed *block = lanyard_h2_resize(session->closed, larger * sizeof *block);
        if (!block) return NGHTTP2_ERR_CALLBACK_FAILURE;
        session->closed = block;
        session->closed_capacity = larger;
    }
    session->closed[session->closed_count++] = (lanyard_h2_closed){owner, code};
    return 0;
}

/* The codec has met a fault of the frame itself: its head does not end. */
static int on_invalid_frame(nghttp2_session *raw, const nghttp2_frame *frame, int code, void *context) {
    (void)raw, (void)code;
    lanyard_h2 *session = context;
    if (frame->hd.type != NGHTTP2_HEADERS || !session->is_reading_head) return 0;
    session->is_reading_head = 0;
    session->work->text_count = session->head_start;
    return 0;
}

static int on_sent(nghttp2_session *raw, const nghttp2_frame *frame, void *context) {
    (void)raw;
    lanyard_h2 *session = context;
    if (frame->hd.type == NGHTTP2_DATA) session->counts.data_sent++;
    if (frame->hd.type != NGHTTP2_RST_STREAM) return 0;
    uint32_t code = frame->rst_stream.error_code;
    /* The peer has provoked it (H40). */
    if (code == NGHTTP2_PROTOCOL_ERROR || code == NGHTTP2_FLOW_CONTROL_ERROR) session->counts.resets++;
    return 0;
}

void lanyard_h2_hear_frames(nghttp2_session_callbacks *callbacks) {
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
}

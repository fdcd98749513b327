/* What the parts of the shim share. */
#ifndef CNGHTTP2_INTERNAL_H
#define CNGHTTP2_INTERNAL_H

#include "CNGHTTP2.h"

enum {
    HEADER_BYTES = 9,
    PREFACE_BYTES = 24,
    OPENED_MAX = 128,
    CONTINUATIONS_MAX = 8,
    TEXT_BYTES_MAX = 4 << 20,
    TEXT_KEPT_MAX = 256 << 10,
    STREAMS_UNLIMITED = INT32_MAX,
    LITERAL_BYTES_MIN = 64,
    HEAD_BYTES_MAX = 15 << 10,
    RESET_CREDIT_MAX = 1000,
};

struct lanyard_h2_workspace {
    lanyard_h2_event *events;
    size_t event_count, event_capacity;
    /* The text of heads. Events have offsets in it until the call ends, since it may move. */
    uint8_t *text;
    size_t text_count, text_capacity;
    /* Crumbs of a cookie, joined. */
    uint8_t *cookie;
    size_t cookie_count, cookie_capacity;
};

typedef struct {
    void *owner;
    uint32_t code;
} lanyard_h2_closed;

/* The long field that was sent last, and its encoding. */
typedef struct {
    /* Name and value. */
    uint8_t *field;
    size_t name_count, value_count;
    uint8_t *encoded;
    size_t encoded_count;
    /* Of the same name with the short value. */
    uint8_t *short_encoded;
    size_t short_count;
    /* Whose head has the short value, and is not in a frame yet. */
    int32_t stream;
} lanyard_h2_literal;

struct lanyard_h2 {
    nghttp2_session *session;
    /* During a call. */
    lanyard_h2_workspace *work;
    lanyard_h2_limits limits;
    lanyard_h2_counts counts;
    lanyard_h2_literal literal;
    lanyard_h2_fault failure;
    /* Of our requests: how many the peer may still reset without a count. */
    uint32_t reset_credit;
    int has_announced;
    unsigned int continuations;
    /* Frames of the peer: bytes of the present one that are to come, and a header of which not all has. */
    size_t frame_left;
    uint8_t header[HEADER_BYTES];
    size_t header_count;
    /* The latest streams that the peer has opened. */
    int32_t opened[OPENED_MAX];
    size_t opened_count;
    /* The head that is being read. */
    size_t head_start;
    size_t list_bytes, list_fields;
    uint32_t head_flags;
    int has_start_line, is_later_head, is_never_indexed;
    /* Its text and crumbs as far as they came with an earlier call. */
    int is_reading_head;
    uint8_t *partial;
    size_t partial_text, partial_cookie;
    lanyard_h2_closed *closed;
    size_t closed_count, closed_capacity;
    /* Of the codec's blocks. */
    size_t codec_bytes;
    nghttp2_rcbuf *method, *scheme, *path, *authority, *protocol, *status;
};

/* memory.c */
/* `total` is the number of bytes in use. */
nghttp2_mem lanyard_h2_memory(size_t *total);
void *lanyard_h2_take(size_t size, int zeroed);
void lanyard_h2_drop(void *bytes);
void *lanyard_h2_resize(void *bytes, size_t size);

/* events.c */
int lanyard_h2_reserve(uint8_t **bytes, size_t count, size_t *capacity, size_t amount);
int lanyard_h2_write(lanyard_h2_workspace *work, const void *bytes, size_t count);
lanyard_h2_event *lanyard_h2_add_event(lanyard_h2 *session, lanyard_h2_kind kind, int32_t stream);
void *lanyard_h2_of_place(size_t place);
void lanyard_h2_clear(lanyard_h2_workspace *workspace);
int lanyard_h2_is_place(const void *owner);

/* heads.c */
void lanyard_h2_forget_head(lanyard_h2 *session);
void lanyard_h2_hear_heads(nghttp2_session_callbacks *callbacks);
int lanyard_h2_end_head(lanyard_h2 *session, const nghttp2_frame *frame);
int lanyard_h2_restore_head(lanyard_h2 *session);
int lanyard_h2_keep_head(lanyard_h2 *session);

/* literal.c */
void lanyard_h2_drop_literal(lanyard_h2 *session);
/* Gives the last field a short value if its encoding is known. 0: it stays as it is. */
int lanyard_h2_begin_literal(lanyard_h2 *session, nghttp2_nv *fields, size_t count);
/* Puts the encoding in place of the short value's, if the frame is that head. The new length, or an error: nothing may be sent. */
ssize_t lanyard_h2_put_literal(lanyard_h2 *session, uint8_t *frame, size_t length);

/* frames.c */
void lanyard_h2_hear_frames(nghttp2_session_callbacks *callbacks);
int lanyard_h2_feed(lanyard_h2 *session, const uint8_t *bytes, size_t count);

#endif

/* libnghttp2 (HTTP/2's codec) as bytes in and events out: no callback of it reaches Swift. */
#ifndef CNGHTTP2_H
#define CNGHTTP2_H

#include <nghttp2/nghttp2.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    /* A whole head: `bytes` is its text, as HTTP/1.1 would have it. */
    LANYARD_H2_HEAD = 1,
    /* A trailer section, as text. */
    LANYARD_H2_TRAILERS,
    /* Bytes of a body, which lie in the input. */
    LANYARD_H2_DATA,
    /* The peer has ended its direction of the stream; nothing came with the end. */
    LANYARD_H2_END,
    LANYARD_H2_SETTINGS,
    LANYARD_H2_PING_ACK,
    /* `stream` is the last one that the peer processes. */
    LANYARD_H2_GOAWAY,
} lanyard_h2_kind;

/* Flags of an event. */
enum {
    /* The peer's direction ends with it. */
    LANYARD_H2_ENDS = 1,
    /* The head is longer than announced: its text is cut. */
    LANYARD_H2_TOO_LARGE = 2,
    /* The head has what no text can carry: a byte that is not allowed, a second authority. */
    LANYARD_H2_MALFORMED = 4,
    /* The scheme is not that of the connection. */
    LANYARD_H2_OTHER_SCHEME = 8,
    /* The sender has forbidden to index some of its fields. */
    LANYARD_H2_NEVER_INDEXED = 16,
    /* An extended CONNECT (RFC 8441), written as the upgrade that it stands for, with a key of zeros. */
    LANYARD_H2_CONNECT = 32,
};

/* No head of the same list. */
#define LANYARD_H2_NO_HEAD SIZE_MAX

typedef struct {
    lanyard_h2_kind kind;
    uint32_t flags;
    int32_t stream;
    uint32_t code;
    /* What `lanyard_h2_adopt` has set. Of a stream whose head is in the same list: NULL, and `head` has that one's place. */
    void *owner;
    size_t head;
    const uint8_t *bytes;
    size_t count;
} lanyard_h2_event;

/* Frames since the counts were last cleared. */
typedef struct {
    /* Resets by the peer, and those that it has provoked by a fault of its own. */
    uint32_t resets;
    /* PING, SETTINGS, PRIORITY, unknown frames, DATA without bytes. */
    uint32_t controls;
    uint32_t window_updates;
    /* DATA that was sent, and DATA with content that has come. */
    uint32_t data_sent, data_received;
} lanyard_h2_counts;

/* Memory that all sessions of one thread use in turn. */
typedef struct lanyard_h2_workspace lanyard_h2_workspace;
typedef struct lanyard_h2 lanyard_h2;

/* The body of a message, as the codec asks for it. */
typedef struct {
    /* Queued bytes, then those that are being pushed. */
    const uint8_t *first;
    size_t first_count;
    const uint8_t *second;
    size_t second_count;
    /* Bytes that were framed so far. */
    uint64_t framed;
    /* The body ends behind these bytes. */
    uint8_t ends;
    /* Trailers follow. */
    uint8_t has_trailers;
    /* The last byte was framed. */
    uint8_t has_ended;
} lanyard_h2_source;

typedef struct {
    int is_server;
    /* The bytes are TLS's. */
    int is_secure;
    uint32_t streams_max;
    uint32_t stream_window;
    uint32_t connection_window;
    /* Announced: bytes of a header list, each field with 32 more. Four times that ends the connection. */
    uint32_t list_bytes_max;
    uint32_t list_fields_max;
    /* Extended CONNECT is announced; else the codec refuses it. */
    int takes_connect;
} lanyard_h2_limits;

lanyard_h2_workspace *lanyard_h2_new_workspace(void);
void lanyard_h2_free_workspace(lanyard_h2_workspace *workspace);

/* NULL: there is no memory. The first SETTINGS are queued. */
lanyard_h2 *lanyard_h2_new(const lanyard_h2_limits *limits);
void lanyard_h2_free(lanyard_h2 *session);
/* What the codec holds, and the head that is being read. */
size_t lanyard_h2_bytes(const lanyard_h2 *session);
nghttp2_session *lanyard_h2_session(lanyard_h2 *session);
/* Bytes that sessions have taken on this thread and not given back. For tests: 0 in release builds. */
size_t lanyard_h2_bytes_in_use(void);

/* Reads bytes. 0, or the codec's error: the connection ends. The events are valid until the next call with this workspace. */
int lanyard_h2_receive(lanyard_h2 *session, lanyard_h2_workspace *workspace, const uint8_t *bytes, size_t count);
lanyard_h2_event *lanyard_h2_events(lanyard_h2_workspace *workspace, size_t *count);
/* Why `lanyard_h2_receive` has failed. */
typedef enum { LANYARD_H2_MALFORMED_BYTES, LANYARD_H2_LIST_TOO_LONG, LANYARD_H2_TOO_MANY_CONTINUATIONS } lanyard_h2_fault;
lanyard_h2_fault lanyard_h2_failure(const lanyard_h2 *session);
lanyard_h2_counts lanyard_h2_take_counts(lanyard_h2 *session);

/* The rest of a head is to come. */
int lanyard_h2_is_within_head(const lanyard_h2 *session);

/* `owner` comes with each further event of the stream, and with its end. For each head that has come; NULL: the stream is of no interest.
   0: the stream is closed already. */
int lanyard_h2_adopt(lanyard_h2 *session, int32_t stream, void *owner);

/* An adopted stream that has closed: both directions have ended, or it was reset with `code`. NULL: there is none. */
size_t lanyard_h2_closed_count(const lanyard_h2 *session);
void *lanyard_h2_take_closed(lanyard_h2 *session, uint32_t *code);

/* Fills `room` with what is to be sent. At least LANYARD_H2_FRAME_MAX bytes must be free for a frame to come. The number of bytes, or the
   codec's error. */
enum { LANYARD_H2_FRAME_MAX = 17 << 10 };
ssize_t lanyard_h2_produce(lanyard_h2 *session, uint8_t *room, size_t room_count);

/* `source`: of the body; NULL: there is none. It must stay at its place until the stream is closed. */
int lanyard_h2_submit_response(
    lanyard_h2 *session, int32_t stream, const nghttp2_nv *fields, size_t count, lanyard_h2_source *source);
/* The long field that was sent last is not kept any more. */
void lanyard_h2_forget_literal(lanyard_h2 *session);

/* The stream's number, or the codec's error. The encoding of a long last field that is never indexed is kept for the next request. */
int32_t lanyard_h2_submit_request(
    lanyard_h2 *session, const nghttp2_nv *fields, size_t count, lanyard_h2_source *source, void *owner);

#endif

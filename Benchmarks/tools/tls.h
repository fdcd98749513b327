/* A stream of bytes over a socket, plain or TLS 1.3, which share their signatures with send and recv. One cipher suite:
 * each proxy has the same work. */
#include "net.h"
#include <openssl/err.h>
#include <openssl/ssl.h>

struct stream {
    int descriptor;
    SSL *tls;                /* NULL: plain */
};

static SSL_CTX *context;     /* NULL: streams are plain */

static inline void use_tls(const SSL_METHOD *method) {
    context = SSL_CTX_new(method);
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION)
        || !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256")) fail("SSL_CTX_new");
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
}

/* The handshake is part of the first read or write. */
static inline struct stream open_stream(int descriptor, void (*role)(SSL *)) {
    struct stream stream = {.descriptor = descriptor};
    if (!context) return stream;
    stream.tls = SSL_new(context);
    if (!stream.tls || !SSL_set_fd(stream.tls, descriptor)) fail("SSL_new");
    role(stream.tls);
    return stream;
}

static inline void close_stream(struct stream *stream) {
    SSL_free(stream->tls);
    close(stream->descriptor);
}

/* As of send or recv: EAGAIN is more to wait for, 0 is the end. */
static inline ssize_t tls_result(struct stream *stream, int result) {
    if (result > 0) return result;
    int error = SSL_get_error(stream->tls, result);
    ERR_clear_error();
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

static inline ssize_t stream_send(struct stream *stream, const void *bytes, size_t count) {
    if (stream->tls) return tls_result(stream, SSL_write(stream->tls, bytes, (int)count));
    return send(stream->descriptor, bytes, count, MSG_NOSIGNAL);
}

static inline ssize_t stream_receive(struct stream *stream, void *bytes, size_t count) {
    if (stream->tls) return tls_result(stream, SSL_read(stream->tls, bytes, (int)count));
    return recv(stream->descriptor, bytes, count, 0);
}

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "COpenSSL.h"

/* Collecting */

/* Room for four full records: the largest read of a shard becomes one send(). */
enum { FIRST_CAPACITY = 4 * (SSL3_RT_MAX_PLAIN_LENGTH + 256) };

static int append(lanyard_tls_bytes *bytes, const void *more, size_t size) {
    if (bytes->capacity - bytes->count < size) {
        size_t capacity = bytes->capacity ? bytes->capacity : FIRST_CAPACITY;
        while (capacity - bytes->count < size) capacity *= 2;
        unsigned char *grown = realloc(bytes->start, capacity);
        if (!grown) return 0;
        bytes->start = grown;
        bytes->capacity = capacity;
    }
    memcpy(bytes->start + bytes->count, more, size);
    bytes->count += size;
    return 1;
}

void lanyard_tls_release(lanyard_tls_bytes *bytes) {
    free(bytes->start);
    *bytes = (lanyard_tls_bytes){0};
}

/* The BIO */

static void note_first(lanyard_tls_socket *socket, const char *bytes, size_t count) {
    size_t room = sizeof socket->first - socket->first_count;
    if (room == 0) return;
    if (count > room) count = room;
    memcpy(socket->first + socket->first_count, bytes, count);
    socket->first_count += (unsigned char)count;
}

/* Takes the part of a record that belongs to one message or to its header. Returns its size. */
static size_t inspect_message(lanyard_tls_hello *hello, const unsigned char *bytes, size_t count) {
    if (hello->message_rest > 0) {
        if (count > hello->message_rest) count = hello->message_rest;
        hello->message_rest -= (unsigned)count;
        return count;
    }
    hello->message[hello->message_count++] = bytes[0];
    if (hello->message_count == sizeof hello->message) {
        hello->message_count = 0;
        hello->message_rest =
            (unsigned)hello->message[1] << 16 | (unsigned)hello->message[2] << 8 | (unsigned)hello->message[3];
        if (hello->message[0] == SSL3_MT_CLIENT_HELLO && hello->message_rest > LANYARD_HELLO_BYTES_MAX)
            hello->is_too_long = 1;
    }
    return 1;
}

/* Bytes that are no records of TLS are counted as if they were: OpenSSL refuses them. */
static void inspect(lanyard_tls_hello *hello, const unsigned char *bytes, size_t count) {
    while (count > 0 && !hello->is_too_long) {
        size_t used = 1;
        if (hello->record_rest == 0) {
            hello->record[hello->record_count++] = bytes[0];
            if (hello->record_count == sizeof hello->record) {
                hello->record_count = 0;
                hello->record_rest = (unsigned)hello->record[3] << 8 | hello->record[4];
            }
        } else {
            used = count < hello->record_rest ? count : hello->record_rest;
            if (hello->record[0] == SSL3_RT_HANDSHAKE) used = inspect_message(hello, bytes, used);
            hello->record_rest -= (unsigned)used;
        }
        bytes += used;
        count -= used;
    }
}

/* A fatal alert, illegal_parameter, as OpenSSL sends it for a message that is too long. */
static const unsigned char refusal[] = {SSL3_RT_ALERT, 3, 3, 0, 2, SSL3_AL_FATAL, SSL_AD_ILLEGAL_PARAMETER};

/* Bytes that one call for a handshake may still read. A peer can send messages that OpenSSL ignores (HelloRequest, RFC 5246 7.4.1.1) in a
   loop that ends only when nothing is left. The call ends, and the caller counts it as a message. */
enum { HANDSHAKE_CALL_BYTES = 64 << 10 };
static _Thread_local size_t handshake_rest = SIZE_MAX;

static int read_socket(BIO *bio, char *room, size_t size, size_t *count) {
    lanyard_tls_socket *socket = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *count = 0;
    if (handshake_rest == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    ssize_t got = -1;
    if (socket->may_read) {
        do got = recv(socket->descriptor, room, size, 0);
        while (got < 0 && errno == EINTR);
        if (got > 0) {
            if ((size_t)got < size && !socket->has_ended) socket->may_read = 0;
            if (handshake_rest != SIZE_MAX) handshake_rest -= (size_t)got < handshake_rest ? (size_t)got : handshake_rest;
            note_first(socket, room, (size_t)got);
            socket->received += (size_t)got;
            if (socket->hello.is_inspected) {
                inspect(&socket->hello, (const unsigned char *)room, (size_t)got);
                if (socket->hello.is_too_long) {
                    append(socket->output, refusal, sizeof refusal);
                    return 0;
                }
            }
            *count = (size_t)got;
            return 1;
        }
        if (got == 0) {
            socket->at_end = 1;
            return 0;
        }
        if (errno != EAGAIN) {
            socket->read_error = errno;
            return 0;
        }
        socket->may_read = 0;
    }
    socket->is_starved = 1;
    BIO_set_retry_read(bio);
    return 0;
}

/* Takes everything: a socket that is full must not stop OpenSSL in the middle of a record. */
static int write_socket(BIO *bio, const char *bytes, size_t size, size_t *count) {
    lanyard_tls_socket *socket = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *count = size;
    if (socket->sends_directly) {
        /* A second record of the same call is collected: it must not overtake the rest of this one. */
        socket->sends_directly = 0;
        ssize_t sent;
        do sent = send(socket->descriptor, bytes, size, MSG_NOSIGNAL | (socket->sends_more ? MSG_MORE : 0));
        while (sent < 0 && errno == EINTR);
        if (sent < 0 && errno != EAGAIN) {
            socket->write_error = errno;
            return 1;
        }
        if (sent < 0) sent = 0;
        socket->sent += (size_t)sent;
        if ((size_t)sent == size) return 1;
        socket->is_full = 1;
        bytes += sent;
        size -= (size_t)sent;
    }
    if (append(socket->output, bytes, size)) return 1;
    socket->write_error = ENOMEM;
    return 1;
}

static long control_socket(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket of a shard");
    if (!method) return NULL;
    BIO_meth_set_read_ex(method, read_socket);
    BIO_meth_set_write_ex(method, write_socket);
    BIO_meth_set_ctrl(method, control_socket);
    return method;
}

/* NULL: there is no memory. No failure is remembered: the next call tries again. It has no lock, because shards call it: of two methods
 * that are made at the same time one is freed. */
static BIO_METHOD *socket_method(void) {
    static _Atomic(BIO_METHOD *) shared;
    BIO_METHOD *method = atomic_load_explicit(&shared, memory_order_acquire);
    if (method) return method;
    method = make_method();
    BIO_METHOD *first = NULL;
    if (!method || atomic_compare_exchange_strong(&shared, &first, method)) return method;
    BIO_meth_free(method);
    return first;
}

/* Calls */

SSL *lanyard_tls_new(SSL_CTX *context, lanyard_tls_socket *socket) {
    BIO_METHOD *method = socket_method();
    SSL *ssl = SSL_new(context);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!ssl || !bio) {
        SSL_free(ssl);
        BIO_free(bio);
        return NULL;
    }
    BIO_set_data(bio, socket);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return ssl;
}

/* The queue is per thread. An entry of an earlier call would be blamed on this one. */
static void forget_errors(void) {
    if (ERR_peek_error()) ERR_clear_error();
}

static int outcome(SSL *ssl, int result) { return result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl, result); }

int lanyard_tls_handshake(SSL *ssl) {
    forget_errors();
    handshake_rest = HANDSHAKE_CALL_BYTES;
    int result = outcome(ssl, SSL_do_handshake(ssl));
    handshake_rest = SIZE_MAX;
    return result;
}

int lanyard_tls_read(SSL *ssl, void *room, size_t size, size_t *count) {
    forget_errors();
    return outcome(ssl, SSL_read_ex(ssl, room, size, count));
}

int lanyard_tls_peek(SSL *ssl, void *room, size_t size, size_t *count) {
    forget_errors();
    return outcome(ssl, SSL_peek_ex(ssl, room, size, count));
}

int lanyard_tls_write(SSL *ssl, const void *bytes, size_t size) {
    size_t written;
    forget_errors();
    return outcome(ssl, SSL_write_ex(ssl, bytes, size, &written));
}

int lanyard_tls_shutdown(SSL *ssl) {
    forget_errors();
    int result = SSL_shutdown(ssl);
    return result < 0 ? SSL_get_error(ssl, result) : SSL_ERROR_NONE;
}

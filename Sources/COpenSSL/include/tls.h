/* TLS over sockets that never block: OpenSSL's macros as functions, and a BIO over one socket. */
#ifndef LANYARD_TLS_H
#define LANYARD_TLS_H

#include <stdint.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

/* Bytes that grow. Ciphertext on its way to a socket. */
typedef struct {
    unsigned char *start;
    size_t capacity;
    size_t count;
} lanyard_tls_bytes;

void lanyard_tls_release(lanyard_tls_bytes *bytes);

/* Bytes of the largest ClientHello that a listener accepts, without its header of 4 bytes. OpenSSL accepts 131,396, and allocates and
   clears as many as the header claims. Hellos with keys of post-quantum exchanges have less than 3 KiB. */
enum { LANYARD_HELLO_BYTES_MAX = 16 << 10 };

/* Reads along in the records of a client, up to the headers of its hellos. A record may hold any part of a message (RFC 8446 5.1). */
typedef struct {
    /* The session is a listener's, and a hello may come. */
    _Bool is_inspected;
    /* A header claims more than LANYARD_HELLO_BYTES_MAX. */
    _Bool is_too_long;
    /* Bytes of the record's header, and of the message's, that have come. */
    unsigned char record_count, message_count;
    unsigned char record[5], message[4];
    /* Bytes that are left of the record, and of the message. */
    unsigned record_rest, message_rest;
} lanyard_tls_hello;

/* What the full handshake of a session has verified. It goes with the session: in the application data of a listener's ticket, and beside a
   session that a client keeps. */
typedef struct {
    /* The peer's chain was verified. */
    _Bool has_chain;
    /* In seconds since 1970: from when on all certificates of the chain are valid, and when the first of them ends. */
    long long valid_from, valid_until;
    /* When the handshake was made, in the nanoseconds of an Instant. */
    long long verified_at;
} lanyard_tls_verification;

/* The certificate that a verification has refused. */
typedef struct {
    _Bool is_known;
    /* Its two times in seconds since 1970. */
    long long valid_from, valid_until;
    /* Its first DNS name, else its common name: printable ASCII, cut, without a quote or a backslash. */
    unsigned char name_count;
    char name[64];
} lanyard_tls_refused_certificate;

/* What the BIO knows of one socket. OpenSSL reads from the socket into its own buffer. What it writes is collected in `output`. */
typedef struct {
    /* Shared by all sockets of a queue: empty before and after each call into OpenSSL. */
    lanyard_tls_bytes *output;
    /* Bytes received and sent through the BIO. */
    unsigned long long received, sent;
    int descriptor;
    /* The errors that ended reading and writing; 0: none. */
    int read_error, write_error;
    /* The socket may have bytes. A read that brings fewer than asked for clears it: the socket is empty, and no call asks it again. */
    _Bool may_read;
    /* epoll has reported the peer's end, and reports it once: reading continues until the end is read. */
    _Bool has_ended;
    /* The peer's end has been read. */
    _Bool at_end;
    /* The last call into OpenSSL has asked for bytes that are not there. */
    _Bool is_starved;
    /* The next record goes to the socket at once, without a copy. */
    _Bool sends_directly;
    /* More follows at once: TCP waits for it with the last segment. */
    _Bool sends_more;
    /* The socket has not taken all of that record. */
    _Bool is_full;
    /* The first bytes received: they show a peer that does not speak TLS. */
    unsigned char first_count;
    unsigned char first[8];
    lanyard_tls_hello hello;
    /* The time at which certificates are verified, in seconds since 1970; 0: the machine's. */
    long long wall_time;
    /* Of this connection's handshake; without a chain if it has verified none. */
    lanyard_tls_verification verification;
    lanyard_tls_refused_certificate refused;
} lanyard_tls_socket;

/* A context with everything that both sides have in common: TLS 1.2 at least, no renegotiation, no compression, read-ahead. NULL: no
   memory. */
SSL_CTX *lanyard_tls_new_context(int is_server);

/* One end of a connection. The socket outlives it. NULL: no memory. */
SSL *lanyard_tls_new(SSL_CTX *context, lanyard_tls_socket *socket);

/* Calls with a clean error queue. Each returns what SSL_get_error() says of it. */
int lanyard_tls_handshake(SSL *ssl);
int lanyard_tls_read(SSL *ssl, void *room, size_t size, size_t *count);
int lanyard_tls_peek(SSL *ssl, void *room, size_t size, size_t *count);
int lanyard_tls_write(SSL *ssl, const void *bytes, size_t size);
int lanyard_tls_shutdown(SSL *ssl);

/* Macros. */
int lanyard_tls_set_server_name(SSL *ssl, const char *name);
int lanyard_tls_add_chain(SSL_CTX *context, X509 *certificate);
void lanyard_tls_keep_sessions(SSL_CTX *context);

/* Has the context verify at the socket's time, note what it has verified in the socket, and keep no certificate of the peer but its own. */
void lanyard_tls_verify_chains(SSL_CTX *context);

/* Bytes of the peer's own certificate, which the connection keeps; 0: it has shown none. */
int lanyard_tls_peer_certificate_bytes(SSL *ssl);

/* Authorities that the peer has named when it asked for a certificate. The connection keeps their names. */
int lanyard_tls_named_authorities(SSL *ssl);

enum { LANYARD_TLS_HTTP1 = 1, LANYARD_TLS_HTTP2 = 2 };

/* Accepts one of `protocols` of those that a client offers (RFC 7301), HTTP/2 first, and refuses a client that offers others only. */
void lanyard_tls_select_http(SSL_CTX *context, int protocols);

/* Prepares the ciphers of one session ticket: AES-256-CBC and HMAC-SHA256, under 32 bytes of key each. 1, or -1. */
int lanyard_tls_protect_ticket(
    EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, const unsigned char *cipher_key, const unsigned char *mac_key,
    const unsigned char *iv, int encrypts);

/* Demands that the certificate has this name among its alternative names. The one rule of every client of TLS. 1, or 0. */
int lanyard_tls_require_host(X509_VERIFY_PARAM *parameters, const char *name, size_t length);

/* Messages of handshakes that a client reads of one connection whose caller cannot count them itself. A handshake has at most 8, and a
   service sends a few session tickets after it. */
enum { LANYARD_TLS_MESSAGES_MAX = 40 };

/* What such connections have received. It lives as long as its maker or a context uses it: a library may keep a connection, and read
   from it, when the call that made it has ended. Not for two threads at once. */
typedef struct {
    unsigned users;
    unsigned messages;
    /* One message too many has come: the connection reads nothing more. */
    _Bool is_exceeded;
    /* Data of the application has come. */
    _Bool has_data;
    /* The latest alert that ended a connection before such data (RFC 8446 6.2); 0: none has. */
    unsigned char alert;
} lanyard_tls_tally;

/* NULL: no memory. */
lanyard_tls_tally *lanyard_tls_make_tally(void);

/* The maker uses it no more. */
void lanyard_tls_release_tally(lanyard_tls_tally *tally);

/* For a library that makes and uses the connections of `context` itself, as libcurl does, with the peer's name as SNI unless the peer is
   an address. Counts and limits the messages, and notes alerts. Demands the name, and of a peer that is an address that its
   certificate names one: the library compares it. 1, or 0: no memory. */
int lanyard_tls_guard_client(SSL_CTX *context, lanyard_tls_tally *tally);

/* Kinds of subject alternative names, as bits. */
enum { LANYARD_SAN_DNS = 1, LANYARD_SAN_URI = 2, LANYARD_SAN_EMAIL = 4, LANYARD_SAN_IP = 8 };

/* Whether one of the certificate's alternative names of these kinds has exactly these bytes; DNS names are compared without case. */
int lanyard_x509_has_name(X509 *certificate, int kinds, const void *bytes, size_t length);

/* The latest second whose nanoseconds since 1970 have 63 bits, in 2262. Certificates without an end name the year 9999 (RFC 5280
   4.1.2.5). */
#define LANYARD_X509_TIME_MAX (INT64_MAX / 1000000000)

/* Seconds since 1970 of one of a certificate's two times, at most LANYARD_X509_TIME_MAX; INT64_MIN: not readable. */
long long lanyard_x509_time(const ASN1_TIME *time);

/* What one block of a PEM file is. */
enum {
    LANYARD_PEM_END,
    LANYARD_PEM_DAMAGED,
    LANYARD_PEM_CERTIFICATE,
    LANYARD_PEM_KEY,
    /* A key that is encrypted with a password. */
    LANYARD_PEM_LOCKED_KEY,
    LANYARD_PEM_OTHER
};

/* Reads the next block. Never asks for a password. The caller frees the certificate or the key that it gets. */
int lanyard_pem_next(BIO *text, X509 **certificate, EVP_PKEY **key);

#endif

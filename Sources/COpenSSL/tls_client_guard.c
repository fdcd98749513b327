#include <pthread.h>
#include <string.h>

#include "COpenSSL.h"

/* Whose certificate */

int lanyard_tls_require_host(X509_VERIFY_PARAM *parameters, const char *name, size_t length) {
    /* A certificate's common name says nothing, and a wildcard stands for one whole label (RFC 9525 6.3, 6.4). */
    X509_VERIFY_PARAM_set_hostflags(
        parameters, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(parameters, name, length);
}

static int names_an_address(X509 *certificate) {
    GENERAL_NAMES *names = certificate ? X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL) : NULL;
    int found = 0;
    for (int place = 0; place < sk_GENERAL_NAME_num(names) && !found; place++)
        found = sk_GENERAL_NAME_value(names, place)->type == GEN_IPADD;
    GENERAL_NAMES_free(names);
    return found;
}

/* In place of X509_verify_cert() alone. */
static int verify(X509_STORE_CTX *store, void *context) {
    (void)context;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    const char *name = ssl ? SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) : NULL;
    if (name) {
        if (lanyard_tls_require_host(X509_STORE_CTX_get0_param(store), name, strlen(name)) != 1) {
            X509_STORE_CTX_set_error(store, X509_V_ERR_OUT_OF_MEM);
            return 0;
        }
    } else if (!names_an_address(X509_STORE_CTX_get0_cert(store))) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_IP_ADDRESS_MISMATCH);
        return 0;
    }
    return X509_verify_cert(store);
}

/* How many messages */

static void note_alert(lanyard_tls_tally *tally, unsigned char description) {
    /* They end no connection in error. */
    if (description == SSL_AD_CLOSE_NOTIFY || description == SSL_AD_USER_CANCELLED) return;
    if (description != SSL_AD_NO_RENEGOTIATION && !tally->has_data) tally->alert = description;
}

/* In TLS 1.3 the type that the head of a record shows is that of every encrypted record. */
static int carries_data(int type, const unsigned char *content, size_t length, const SSL *ssl) {
    int shows_type = type == SSL3_RT_INNER_CONTENT_TYPE || (type == SSL3_RT_HEADER && SSL_version(ssl) < TLS1_3_VERSION);
    return shows_type && length > 0 && content[0] == SSL3_RT_APPLICATION_DATA;
}

static void count_message(
    int is_sent, int version, int type, const void *bytes, size_t length, SSL *ssl, void *context) {
    (void)version;
    lanyard_tls_tally *tally = context;
    if (is_sent) return;
    const unsigned char *content = bytes;
    if (type == SSL3_RT_ALERT && length == 2) note_alert(tally, content[1]);
    if (carries_data(type, content, length, ssl)) tally->has_data = 1;
    if (type != SSL3_RT_HANDSHAKE || ++tally->messages <= LANYARD_TLS_MESSAGES_MAX) return;
    tally->is_exceeded = 1;
    /* OpenSSL then reads no further record, also in a loop that it is in. */
    SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

lanyard_tls_tally *lanyard_tls_make_tally(void) {
    lanyard_tls_tally *tally = OPENSSL_zalloc(sizeof *tally);
    if (tally) tally->users = 1;
    return tally;
}

void lanyard_tls_release_tally(lanyard_tls_tally *tally) {
    if (tally && --tally->users == 0) OPENSSL_free(tally);
}

static void release_with_context(
    void *context, void *tally, CRYPTO_EX_DATA *data, int index, long number, void *pointer) {
    (void)context, (void)data, (void)index, (void)number, (void)pointer;
    lanyard_tls_release_tally(tally);
}

/* The index of a context's tally; -1: there is no memory. No failure is remembered: the next call tries again. */
static int tally_index(void) {
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    static int made = -1;
    pthread_mutex_lock(&making);
    if (made < 0) made = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, release_with_context);
    int index = made;
    pthread_mutex_unlock(&making);
    return index;
}

int lanyard_tls_guard_client(SSL_CTX *context, lanyard_tls_tally *tally) {
    int index = tally_index();
    if (index < 0 || SSL_CTX_set_ex_data(context, index, tally) != 1) return 0;
    tally->users++;
    /* One call handles one message and then returns. */
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_msg_callback(context, count_message);
    SSL_CTX_set_msg_callback_arg(context, tally);
    SSL_CTX_set_cert_verify_callback(context, verify, NULL);
    return 1;
}

#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <openssl/core_names.h>
#include <openssl/params.h>

#include "COpenSSL.h"

/* Contexts */

SSL_CTX *lanyard_tls_new_context(int is_server) {
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    if (!context) return NULL;
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_clear_options(
        context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_LEGACY_SERVER_CONNECT | SSL_OP_ALLOW_UNSAFE_LEGACY_RENEGOTIATION |
                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* One call handles the messages that have arrived and then returns: they can be counted. */
    SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
    /* One recv() brings the header and the record. */
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_max_early_data(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    /* A peer that sends this side through TLS 1.2 without forward secrecy is refused. A client may still use CBC with old servers. */
    const char *ciphers = is_server ? "ECDHE+AESGCM:ECDHE+CHACHA20" : "DEFAULT:!kRSA:!kPSK:!kSRP:!aNULL:!eNULL";
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 && SSL_CTX_set_max_proto_version(context, 0) == 1 &&
        SSL_CTX_set_cipher_list(context, ciphers) == 1)
        return context;
    SSL_CTX_free(context);
    return NULL;
}

int lanyard_tls_set_server_name(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }

int lanyard_tls_add_chain(SSL_CTX *context, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(context, certificate);
}

void lanyard_tls_keep_sessions(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}

static void keep_name(lanyard_tls_refused_certificate *kept, const ASN1_STRING *name) {
    const unsigned char *bytes = name ? ASN1_STRING_get0_data(name) : NULL;
    int count = name ? ASN1_STRING_length(name) : 0;
    for (int place = 0; place < count && kept->name_count < sizeof kept->name; place++) {
        unsigned char byte = bytes[place];
        int is_plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
        kept->name[kept->name_count++] = is_plain ? (char)byte : '?';
    }
}

/* What a message says of a certificate that is not trusted. */
static void keep_refused(lanyard_tls_refused_certificate *kept, X509 *certificate) {
    memset(kept, 0, sizeof *kept);
    if (!certificate) return;
    kept->is_known = 1;
    kept->valid_from = lanyard_x509_time(X509_get0_notBefore(certificate));
    kept->valid_until = lanyard_x509_time(X509_get0_notAfter(certificate));
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int place = 0; place < sk_GENERAL_NAME_num(names) && kept->name_count == 0; place++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, place);
        if (name->type == GEN_DNS) keep_name(kept, name->d.dNSName);
    }
    GENERAL_NAMES_free(names);
    if (kept->name_count > 0) return;
    X509_NAME *subject = X509_get_subject_name(certificate);
    int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (place >= 0) keep_name(kept, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)));
}

static int verify_chain(X509_STORE_CTX *verification, void *unused) {
    (void)unused;
    SSL *ssl = X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx());
    lanyard_tls_socket *socket = BIO_get_data(SSL_get_rbio(ssl));
    if (socket->wall_time) X509_STORE_CTX_set_time(verification, 0, (time_t)socket->wall_time);
    int result = X509_verify_cert(verification) > 0;
    if (!result) keep_refused(&socket->refused, X509_STORE_CTX_get_current_cert(verification));
    STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(verification);
    lanyard_tls_verification found = {result, INT64_MIN, INT64_MAX, 0};
    for (int place = 0; place < sk_X509_num(chain); place++) {
        long long from = lanyard_x509_time(X509_get0_notBefore(sk_X509_value(chain, place)));
        long long until = lanyard_x509_time(X509_get0_notAfter(sk_X509_value(chain, place)));
        if (from > found.valid_from) found.valid_from = from;
        if (until < found.valid_until) found.valid_until = until;
    }
    socket->verification = found;
    /* The connection would keep the verified chain and its session the chain that was sent: up to 130 KiB that nothing reads again. The
       first certificate is the peer's own. */
    X509_STORE_CTX_set0_verified_chain(verification, NULL);
    STACK_OF(X509) *sent = X509_STORE_CTX_get0_untrusted(verification);
    while (sk_X509_num(sent) > 1) X509_free(sk_X509_pop(sent));
    return result;
}

void lanyard_tls_verify_chains(SSL_CTX *context) { SSL_CTX_set_cert_verify_callback(context, verify_chain, NULL); }

int lanyard_tls_peer_certificate_bytes(SSL *ssl) {
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    return certificate ? i2d_X509(certificate, NULL) : 0;
}

int lanyard_tls_named_authorities(SSL *ssl) { return sk_X509_NAME_num(SSL_get0_peer_CA_list(ssl)); }

static int offers(const unsigned char *offered, unsigned int size, const char *name, const unsigned char **found) {
    size_t length = strlen(name);
    for (unsigned int place = 0; place < size && size - place > offered[place]; place += offered[place] + 1u) {
        if (offered[place] != length || memcmp(offered + place + 1, name, length) != 0) continue;
        *found = offered + place + 1;
        return 1;
    }
    return 0;
}

static int select_http(
    SSL *ssl, const unsigned char **selected, unsigned char *length, const unsigned char *offered, unsigned int size,
    void *context) {
    (void)ssl;
    int protocols = (int)(intptr_t)context;
    if (protocols & LANYARD_TLS_HTTP2 && offers(offered, size, "h2", selected)) {
        *length = 2;
        return SSL_TLSEXT_ERR_OK;
    }
    if (protocols & LANYARD_TLS_HTTP1 && offers(offered, size, "http/1.1", selected)) {
        *length = 8;
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void lanyard_tls_select_http(SSL_CTX *context, int protocols) {
    SSL_CTX_set_alpn_select_cb(context, select_http, (void *)(intptr_t)protocols);
}

int lanyard_tls_protect_ticket(
    EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, const unsigned char *cipher_key, const unsigned char *mac_key,
    const unsigned char *iv, int encrypts) {
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)mac_key, 32),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    if (EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, cipher_key, iv, encrypts) != 1) return -1;
    return EVP_MAC_CTX_set_params(mac, parameters) == 1 ? 1 : -1;
}

/* Certificates */

int lanyard_x509_has_name(X509 *certificate, int kinds, const void *bytes, size_t length) {
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int found = 0;
    for (int place = 0; place < sk_GENERAL_NAME_num(names) && !found; place++) {
        int type, kind;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, place), &type);
        switch (type) {
        case GEN_DNS: kind = LANYARD_SAN_DNS; break;
        case GEN_URI: kind = LANYARD_SAN_URI; break;
        case GEN_EMAIL: kind = LANYARD_SAN_EMAIL; break;
        case GEN_IPADD: kind = LANYARD_SAN_IP; break;
        default: continue;
        }
        if (!(kinds & kind) || (size_t)ASN1_STRING_length(value) != length) continue;
        /* strncasecmp() ends at a NUL: the lengths are equal, so a name with NUL is compared by all of its bytes first. */
        const unsigned char *data = ASN1_STRING_get0_data(value);
        found = memcmp(data, bytes, length) == 0 || (kind == LANYARD_SAN_DNS && !memchr(data, 0, length) &&
                                                     strncasecmp((const char *)data, bytes, length) == 0);
    }
    GENERAL_NAMES_free(names);
    if (ERR_peek_error()) ERR_clear_error();
    return found;
}

long long lanyard_x509_time(const ASN1_TIME *time) {
    struct tm parts;
    if (!time || ASN1_TIME_to_tm(time, &parts) != 1) return INT64_MIN;
    long long seconds = (long long)timegm(&parts);
    return seconds < LANYARD_X509_TIME_MAX ? seconds : LANYARD_X509_TIME_MAX;
}

/* PEM */

static int read_block(const char *name, const char *header, const unsigned char *data, long length, X509 **certificate,
                      EVP_PKEY **key) {
    const unsigned char *place = data;
    if (strcmp(name, PEM_STRING_X509) == 0 || strcmp(name, PEM_STRING_X509_OLD) == 0) {
        *certificate = d2i_X509(NULL, &place, length);
        return *certificate ? LANYARD_PEM_CERTIFICATE : LANYARD_PEM_DAMAGED;
    }
    if (strcmp(name, PEM_STRING_X509_TRUSTED) == 0) {
        *certificate = d2i_X509_AUX(NULL, &place, length);
        return *certificate ? LANYARD_PEM_CERTIFICATE : LANYARD_PEM_DAMAGED;
    }
    size_t size = strlen(name);
    if (size < 11 || strcmp(name + size - 11, "PRIVATE KEY") != 0) return LANYARD_PEM_OTHER;
    if (strcmp(name, PEM_STRING_PKCS8) == 0 || strstr(header, "ENCRYPTED")) return LANYARD_PEM_LOCKED_KEY;
    *key = d2i_AutoPrivateKey(NULL, &place, length);
    return *key ? LANYARD_PEM_KEY : LANYARD_PEM_DAMAGED;
}

int lanyard_pem_next(BIO *text, X509 **certificate, EVP_PKEY **key) {
    char *name = NULL, *header = NULL;
    unsigned char *data = NULL;
    long length = 0;
    int kind;
    ERR_clear_error();
    if (PEM_read_bio(text, &name, &header, &data, &length) == 1) {
        kind = read_block(name, header, data, length, certificate, key);
    } else {
        kind = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE ? LANYARD_PEM_END : LANYARD_PEM_DAMAGED;
    }
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_clear_free(data, length > 0 ? (size_t)length : 0);
    ERR_clear_error();
    return kind;
}

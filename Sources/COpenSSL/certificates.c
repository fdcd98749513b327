#include "COpenSSL.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

int lanyard_openssl_count_certificates(const void *pem, int length) {
    BIO *text = BIO_new_mem_buf(pem, length);
    /* "" is the passphrase: without one OpenSSL would ask for it at the terminal. */
    STACK_OF(X509_INFO) *blocks = text ? PEM_X509_INFO_read_bio(text, NULL, NULL, "") : NULL;
    int count = blocks ? 0 : -1;
    for (int place = 0; place < sk_X509_INFO_num(blocks); place++) {
        if (sk_X509_INFO_value(blocks, place)->x509) count++;
    }
    sk_X509_INFO_pop_free(blocks, X509_INFO_free);
    BIO_free(text);
    /* The queue is per thread; a later call would report a stale entry. */
    ERR_clear_error();
    return count;
}

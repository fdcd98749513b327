/* OpenSSL, and shims of its macros. */
#ifndef COPENSSL_H
#define COPENSSL_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "tls.h"

/* CRYPTO_set_mem_functions() with a free that wipes. Must be the first OpenSSL call of the process: 1, else 0. */
int lanyard_openssl_wipe_on_free(void);

/* Certificates among PEM blocks, read as SSL_CTX_load_verify_locations() reads a file of them; -1 if a block is damaged. */
int lanyard_openssl_count_certificates(const void *pem, int length);

#endif

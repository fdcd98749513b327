/* Allocators that wipe the memory that they free: libcurl and OpenSSL hold tokens and passwords in their buffers. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "lanyard_curl.h"
#include "lanyard_openssl.h"

static void wiping_free(void *block) {
    if (!block) return;
    explicit_bzero(block, malloc_usable_size(block));
    free(block);
}

/* realloc() may move and leave the old bytes behind, so a growing block is always copied. */
static void *wiping_realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    if (!size) {
        wiping_free(block);
        return NULL;
    }
    size_t had = malloc_usable_size(block);
    if (size <= had) return block;
    void *grown = malloc(size);
    if (!grown) return NULL;
    memcpy(grown, block, had);
    wiping_free(block);
    return grown;
}

static void *openssl_malloc(size_t size, const char *file, int line) {
    (void)file, (void)line;
    return malloc(size);
}
static void *openssl_realloc(void *block, size_t size, const char *file, int line) {
    (void)file, (void)line;
    return wiping_realloc(block, size);
}
static void openssl_free(void *block, const char *file, int line) {
    (void)file, (void)line;
    wiping_free(block);
}

int lanyard_openssl_wipe_on_free(void) {
    return CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
}

CURLcode lanyard_curl_global_init(void) {
    return curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, wiping_free, wiping_realloc, strdup, calloc);
}

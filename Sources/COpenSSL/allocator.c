#include <stdlib.h>

#include "CLinux.h"
#include "COpenSSL.h"

static void *wiping_malloc(size_t size, const char *file, int line) {
    (void)file, (void)line;
    return malloc(size);
}
static void *wiping_realloc(void *block, size_t size, const char *file, int line) {
    (void)file, (void)line;
    return lanyard_wiping_realloc(block, size);
}
static void wiping_free(void *block, const char *file, int line) {
    (void)file, (void)line;
    lanyard_wiping_free(block);
}

int lanyard_openssl_wipe_on_free(void) { return CRYPTO_set_mem_functions(wiping_malloc, wiping_realloc, wiping_free); }

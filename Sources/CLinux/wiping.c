#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "CLinux.h"

void lanyard_wiping_free(void *block) {
    if (!block) return;
    explicit_bzero(block, malloc_usable_size(block));
    free(block);
}

/* realloc() may move and leave the old bytes behind, so a growing block is always copied. */
void *lanyard_wiping_realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    if (!size) {
        lanyard_wiping_free(block);
        return NULL;
    }
    size_t had = malloc_usable_size(block);
    if (size <= had) return block;
    void *grown = malloc(size);
    if (!grown) return NULL;
    memcpy(grown, block, had);
    lanyard_wiping_free(block);
    return grown;
}

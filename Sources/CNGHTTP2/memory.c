#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The codec's memory: each block knows its size, so that it can be wiped. Large ones hold no fields. */

enum { BLOCK_HEAD = 16, WIPED_MAX = 128 << 10 };

void *lanyard_h2_take(size_t size, int zeroed) {
    uint8_t *block = zeroed ? calloc(1, size + BLOCK_HEAD) : malloc(size + BLOCK_HEAD);
    if (!block) return NULL;
    memcpy(block, &size, sizeof size);
    return block + BLOCK_HEAD;
}

void lanyard_h2_drop(void *bytes) {
    if (!bytes) return;
    uint8_t *block = (uint8_t *)bytes - BLOCK_HEAD;
    size_t size;
    memcpy(&size, block, sizeof size);
    if (size <= WIPED_MAX) explicit_bzero(bytes, size);
    free(block);
}

void *lanyard_h2_resize(void *bytes, size_t size) {
    if (!bytes) return lanyard_h2_take(size, 0);
    size_t former;
    memcpy(&former, (uint8_t *)bytes - BLOCK_HEAD, sizeof former);
    void *larger = lanyard_h2_take(size, 0);
    if (!larger) return NULL;
    memcpy(larger, bytes, former < size ? former : size);
    lanyard_h2_drop(bytes);
    return larger;
}

static void *take_block(size_t size, void *context) {
    (void)context;
    return lanyard_h2_take(size, 0);
}

static void *take_zeroed(size_t count, size_t size, void *context) {
    (void)context;
    return size && count > SIZE_MAX / size ? NULL : lanyard_h2_take(count * size, 1);
}

static void drop(void *bytes, void *context) {
    (void)context;
    lanyard_h2_drop(bytes);
}

static void *resize(void *bytes, size_t size, void *context) {
    (void)context;
    return lanyard_h2_resize(bytes, size);
}

nghttp2_mem lanyard_h2_memory = {NULL, take_block, drop, take_zeroed, resize};

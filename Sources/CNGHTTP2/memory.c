#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The codec's memory: each block knows its size, so that it can be wiped. Large ones hold no fields. */

enum { BLOCK_HEAD = 16, WIPED_MAX = 128 << 10 };

/* Small blocks are kept for the next stream, as each one takes some: the C library's own store of them is too short for many streams at
   once. Of each thread, by their sizes; 2 MiB at most. */
enum { CLASS_BYTES = 64, CLASSES = 16, KEPT_BYTES_MAX = 128 << 10 };

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_NOTHING 1
#endif
#endif

typedef struct spare {
    struct spare *next;
} spare;

static _Thread_local struct {
    spare *first;
    size_t bytes;
} spares[CLASSES];

/* All blocks of a class have its whole room. CLASSES: the size has none. */
static size_t class_of(size_t size) {
#ifdef KEEPS_NOTHING
    (void)size;
    return CLASSES;
#else
    return size == 0 ? 0 : (size - 1) / CLASS_BYTES;
#endif
}

static size_t room_of(size_t class) { return (class + 1) * CLASS_BYTES + BLOCK_HEAD; }

#ifdef LANYARD_H2_COUNTED
/* Of the thread: a test that makes and frees a session on one thread sees what it has left behind. */
static _Thread_local size_t bytes_in_use;
#define COUNT(bytes) (bytes_in_use += (bytes))
size_t lanyard_h2_bytes_in_use(void) { return bytes_in_use; }
#else
#define COUNT(bytes) ((void)0)
size_t lanyard_h2_bytes_in_use(void) { return 0; }
#endif

static size_t size_of(const void *bytes) {
    size_t size = 0;
    if (bytes) memcpy(&size, (const uint8_t *)bytes - BLOCK_HEAD, sizeof size);
    return size;
}

void *lanyard_h2_take(size_t size, int zeroed) {
    size_t class = class_of(size);
    uint8_t *block;
    if (class < CLASSES && spares[class].first) {
        block = (uint8_t *)spares[class].first;
        spares[class].first = spares[class].first->next;
        spares[class].bytes -= room_of(class);
        if (zeroed) memset(block + BLOCK_HEAD, 0, size);
    } else {
        size_t room = class < CLASSES ? room_of(class) : size + BLOCK_HEAD;
        block = zeroed ? calloc(1, room) : malloc(room);
    }
    if (!block) return NULL;
    memcpy(block, &size, sizeof size);
    COUNT(size);
    return block + BLOCK_HEAD;
}

void lanyard_h2_drop(void *bytes) {
    if (!bytes) return;
    uint8_t *block = (uint8_t *)bytes - BLOCK_HEAD;
    size_t size = size_of(bytes);
    COUNT(0 - size);
    if (size <= WIPED_MAX) explicit_bzero(bytes, size);
    size_t class = class_of(size);
    if (class >= CLASSES || spares[class].bytes + room_of(class) > KEPT_BYTES_MAX) {
        free(block);
        return;
    }
    spare *kept = (spare *)block;
    kept->next = spares[class].first;
    spares[class].first = kept;
    spares[class].bytes += room_of(class);
}

void *lanyard_h2_resize(void *bytes, size_t size) {
    if (!bytes) return lanyard_h2_take(size, 0);
    size_t former = size_of(bytes);
    void *larger = lanyard_h2_take(size, 0);
    if (!larger) return NULL;
    memcpy(larger, bytes, former < size ? former : size);
    lanyard_h2_drop(bytes);
    return larger;
}

/* What the codec of one session holds. NULL: it is not counted. */
static void count(size_t *total, size_t bytes) {
    if (total) *total += bytes;
}

static void *take_block(size_t size, void *total) {
    void *bytes = lanyard_h2_take(size, 0);
    if (bytes) count(total, size);
    return bytes;
}

static void *take_zeroed(size_t number, size_t size, void *total) {
    if (size && number > SIZE_MAX / size) return NULL;
    void *bytes = lanyard_h2_take(number * size, 1);
    if (bytes) count(total, number * size);
    return bytes;
}

static void drop(void *bytes, void *total) {
    count(total, 0 - size_of(bytes));
    lanyard_h2_drop(bytes);
}

static void *resize(void *bytes, size_t size, void *total) {
    size_t former = size_of(bytes);
    void *other = lanyard_h2_resize(bytes, size);
    if (other) count(total, size - former);
    return other;
}

nghttp2_mem lanyard_h2_memory(size_t *total) {
    return (nghttp2_mem){total, take_block, drop, take_zeroed, resize};
}

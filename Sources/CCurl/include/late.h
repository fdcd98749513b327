/* libcurl is not linked but loaded, by lanyard_curl_load() or by its first use: it brings 25 libraries, a quarter of the time of a
 * start (docs/design/performance.md). A Lanyard whose tokens are those of files never has them in memory.
 *
 * The functions below have libcurl's own names, so that callers know nothing of it; late.c defines them. They are hidden:
 * libcurl's own calls of these functions stay within libcurl. Those with variable arguments are called through the table. */
#ifndef LANYARD_CURL_LATE_H
#define LANYARD_CURL_LATE_H

/* Its macros that check types would hide the functions. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define LANYARD_CURL_FUNCTIONS(each) \
    each(curl_easy_cleanup) each(curl_easy_getinfo) each(curl_easy_init) each(curl_easy_pause) \
    each(curl_easy_setopt) each(curl_easy_strerror) each(curl_free) each(curl_getdate) each(curl_global_init_mem) \
    each(curl_multi_add_handle) each(curl_multi_cleanup) each(curl_multi_info_read) each(curl_multi_init) \
    each(curl_multi_remove_handle) each(curl_multi_setopt) each(curl_multi_socket_action) \
    each(curl_multi_strerror) each(curl_slist_append) each(curl_slist_free_all) each(curl_url) \
    each(curl_url_cleanup) each(curl_url_get) each(curl_url_set)

/* The functions of the loaded library. All are NULL if it cannot be loaded now. */
struct lanyard_curl {
#define LANYARD_CURL_MEMBER(name) __typeof__(&name) name;
    LANYARD_CURL_FUNCTIONS(LANYARD_CURL_MEMBER)
};
__attribute__((visibility("hidden"))) const struct lanyard_curl *lanyard_curl(void);

/* Loads and initialises the library, unless that is done: 1, or 0 with the reason as text in `reason` of `size` bytes (NULL: it is not
 * wanted). No failure is remembered: descriptors may be missing for a moment, or the library while its package is replaced. */
__attribute__((visibility("hidden"))) int lanyard_curl_load(char *reason, size_t size);

/* curl_global_init_mem() with allocators that wipe on free. */
__attribute__((visibility("hidden"))) CURLcode lanyard_curl_initialise(const struct lanyard_curl *curl);

#define LANYARD_CURL_HIDDEN(name) extern __typeof__(name) name __attribute__((visibility("hidden")));
LANYARD_CURL_FUNCTIONS(LANYARD_CURL_HIDDEN)

#endif

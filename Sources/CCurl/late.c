#include "late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static struct lanyard_curl loaded;
/* 1 from the moment when all threads can use `loaded`. */
static atomic_int is_loaded;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static int fail(char *reason, size_t size, const char *text, const char *name) {
    if (reason && size > 0) snprintf(reason, size, "%s%s", text ? text : "the loader gives no reason", name);
    return 0;
}

/* 1 if the library was loaded and initialised. */
static int load(char *reason, size_t size) {
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) return fail(reason, size, dlerror(), "");
    struct lanyard_curl found = {
#define LANYARD_CURL_FIND(name) .name = (__typeof__(&name))dlsym(library, #name),
        LANYARD_CURL_FUNCTIONS(LANYARD_CURL_FIND)
    };
    const char *missing = NULL;
#define LANYARD_CURL_CHECK(name) if (!found.name) missing = #name;
    LANYARD_CURL_FUNCTIONS(LANYARD_CURL_CHECK)
    if (missing) {
        dlclose(library);
        return fail(reason, size, "libcurl.so.4 is too old, it has no ", missing);
    }
    /* After a failure it stays in memory: OpenSSL may refer to it. */
    CURLcode code = lanyard_curl_initialise(&found);
    if (code != CURLE_OK) return fail(reason, size, found.curl_easy_strerror(code), "");
    loaded = found;
    return 1;
}

int lanyard_curl_load(char *reason, size_t size) {
    if (atomic_load_explicit(&is_loaded, memory_order_acquire)) return 1;
    pthread_mutex_lock(&loading);
    int result = atomic_load_explicit(&is_loaded, memory_order_relaxed) || load(reason, size);
    if (result) atomic_store_explicit(&is_loaded, 1, memory_order_release);
    pthread_mutex_unlock(&loading);
    return result;
}

const struct lanyard_curl *lanyard_curl(void) {
    static const struct lanyard_curl none;
    return lanyard_curl_load(NULL, 0) ? &loaded : &none;
}

/* Without the library there is no handle, so the functions that take one are not called. */
CURL *curl_easy_init(void) { return lanyard_curl()->curl_easy_init ? lanyard_curl()->curl_easy_init() : NULL; }
CURLM *curl_multi_init(void) { return lanyard_curl()->curl_multi_init ? lanyard_curl()->curl_multi_init() : NULL; }
CURLU *curl_url(void) { return lanyard_curl()->curl_url ? lanyard_curl()->curl_url() : NULL; }

void curl_easy_cleanup(CURL *easy) { lanyard_curl()->curl_easy_cleanup(easy); }
CURLcode curl_easy_pause(CURL *easy, int directions) { return lanyard_curl()->curl_easy_pause(easy, directions); }
const char *curl_easy_strerror(CURLcode code) { return lanyard_curl()->curl_easy_strerror(code); }
void curl_free(void *memory) { lanyard_curl()->curl_free(memory); }
time_t curl_getdate(const char *text, const time_t *unused) { return lanyard_curl()->curl_getdate(text, unused); }
CURLMcode curl_multi_add_handle(CURLM *multi, CURL *easy) { return lanyard_curl()->curl_multi_add_handle(multi, easy); }
CURLMcode curl_multi_cleanup(CURLM *multi) { return lanyard_curl()->curl_multi_cleanup(multi); }
CURLMsg *curl_multi_info_read(CURLM *multi, int *left) { return lanyard_curl()->curl_multi_info_read(multi, left); }
CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *easy) {
    return lanyard_curl()->curl_multi_remove_handle(multi, easy);
}
CURLMcode curl_multi_socket_action(CURLM *multi, curl_socket_t socket, int events, int *running) {
    return lanyard_curl()->curl_multi_socket_action(multi, socket, events, running);
}
const char *curl_multi_strerror(CURLMcode code) { return lanyard_curl()->curl_multi_strerror(code); }
struct curl_slist *curl_slist_append(struct curl_slist *list, const char *line) {
    return lanyard_curl()->curl_slist_append(list, line);
}
void curl_slist_free_all(struct curl_slist *list) {
    if (list) lanyard_curl()->curl_slist_free_all(list);
}
void curl_url_cleanup(CURLU *url) { lanyard_curl()->curl_url_cleanup(url); }
CURLUcode curl_url_get(CURLU *url, CURLUPart part, char **text, unsigned flags) {
    return lanyard_curl()->curl_url_get(url, part, text, flags);
}
CURLUcode curl_url_set(CURLU *url, CURLUPart part, const char *text, unsigned flags) {
    return lanyard_curl()->curl_url_set(url, part, text, flags);
}

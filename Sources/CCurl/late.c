#include "late.h"

#include <dlfcn.h>
#include <pthread.h>

static struct lanyard_curl loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    struct lanyard_curl found = {
#define LANYARD_CURL_FIND(name) .name = (__typeof__(&name))dlsym(library, #name),
        LANYARD_CURL_FUNCTIONS(LANYARD_CURL_FIND)
    };
#define LANYARD_CURL_CHECK(name) if (!found.name) return;
    LANYARD_CURL_FUNCTIONS(LANYARD_CURL_CHECK)
    loaded = found;
}

const struct lanyard_curl *lanyard_curl(void) {
    pthread_once(&once, load);
    return &loaded;
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

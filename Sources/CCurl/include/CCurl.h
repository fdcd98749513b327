/* libcurl, and typed shims of its variadic calls: one for each kind of argument. */
#ifndef CCURL_H
#define CCURL_H

#include "late.h"

static inline CURLcode lanyard_curl_set_long(CURL *easy, CURLoption option, long value) {
    return lanyard_curl()->curl_easy_setopt(easy, option, value);
}
static inline CURLcode lanyard_curl_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return lanyard_curl()->curl_easy_setopt(easy, option, value);
}
static inline CURLcode lanyard_curl_set_string(CURL *easy, CURLoption option, const char *value) {
    return lanyard_curl()->curl_easy_setopt(easy, option, value);
}
static inline CURLcode lanyard_curl_set_pointer(CURL *easy, CURLoption option, void *value) {
    return lanyard_curl()->curl_easy_setopt(easy, option, value);
}
static inline CURLcode lanyard_curl_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
    return lanyard_curl()->curl_easy_setopt(easy, option, value);
}

/* libcurl copies the bytes, and wipes its copy when it frees it. */
static inline CURLcode lanyard_curl_set_blob(CURL *easy, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {.data = (void *)bytes, .len = count, .flags = CURL_BLOB_COPY};
    return lanyard_curl()->curl_easy_setopt(easy, option, &blob);
}

typedef size_t (*lanyard_curl_data_callback)(char *bytes, size_t size, size_t count, void *context);
static inline CURLcode lanyard_curl_set_data_callback(CURL *easy, CURLoption option, lanyard_curl_data_callback call) {
    return lanyard_curl()->curl_easy_setopt(easy, option, call);
}

/* Has libcurl ask its read callback again, which has returned CURL_READFUNC_PAUSE. */
static inline CURLcode lanyard_curl_resume(CURL *easy) {
    return curl_easy_pause(easy, CURLPAUSE_CONT);
}

/* Makes the socket of one connection; CURL_SOCKET_BAD: that address is not dialled. */
typedef curl_socket_t (*lanyard_curl_open_callback)(void *context, curlsocktype purpose, struct curl_sockaddr *address);
static inline CURLcode lanyard_curl_set_open_callback(CURL *easy, lanyard_curl_open_callback call) {
    return lanyard_curl()->curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, call);
}

/* Called before each handshake with its context (SSL_CTX *); anything but CURLE_OK ends the transfer. */
typedef CURLcode (*lanyard_curl_context_callback)(CURL *easy, void *tls, void *context);
static inline CURLcode lanyard_curl_set_context_callback(CURL *easy, lanyard_curl_context_callback call) {
    return lanyard_curl()->curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, call);
}

/* Called in each step of a transfer; anything but 0 ends it. */
typedef int (*lanyard_curl_step_callback)(
    void *context, curl_off_t toReceive, curl_off_t received, curl_off_t toSend, curl_off_t sent);
static inline CURLcode lanyard_curl_set_step_callback(CURL *easy, lanyard_curl_step_callback call) {
    return lanyard_curl()->curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, call);
}

static inline CURLcode lanyard_curl_get_long(CURL *easy, CURLINFO info, long *value) {
    return lanyard_curl()->curl_easy_getinfo(easy, info, value);
}
static inline CURLcode lanyard_curl_get_string(CURL *easy, CURLINFO info, char **value) {
    return lanyard_curl()->curl_easy_getinfo(easy, info, value);
}
static inline CURLcode lanyard_curl_get_certificates(CURL *easy, struct curl_certinfo **value) {
    return lanyard_curl()->curl_easy_getinfo(easy, CURLINFO_CERTINFO, value);
}
static inline CURLcode lanyard_curl_get_offset(CURL *easy, CURLINFO info, curl_off_t *value) {
    return lanyard_curl()->curl_easy_getinfo(easy, info, value);
}

typedef int (*lanyard_curl_socket_callback)(CURL *easy, curl_socket_t socket, int what, void *context, void *own);
typedef int (*lanyard_curl_timer_callback)(CURLM *multi, long milliseconds, void *context);
static inline CURLMcode lanyard_curl_multi_set_pointer(CURLM *multi, CURLMoption option, void *value) {
    return lanyard_curl()->curl_multi_setopt(multi, option, value);
}
static inline CURLMcode lanyard_curl_multi_set_socket_callback(CURLM *multi, lanyard_curl_socket_callback call) {
    return lanyard_curl()->curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, call);
}
static inline CURLMcode lanyard_curl_multi_set_timer_callback(CURLM *multi, lanyard_curl_timer_callback call) {
    return lanyard_curl()->curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, call);
}

#endif

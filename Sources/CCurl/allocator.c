#include <stdlib.h>
#include <string.h>

#include "CCurl.h"
#include "CLinux.h"

CURLcode lanyard_curl_global_init(void) {
    if (!lanyard_curl()->curl_global_init_mem) return CURLE_FAILED_INIT;
    return lanyard_curl()->curl_global_init_mem(
        CURL_GLOBAL_DEFAULT, malloc, lanyard_wiping_free, lanyard_wiping_realloc, strdup, calloc);
}

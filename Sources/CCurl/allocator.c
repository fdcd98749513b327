#include <stdlib.h>
#include <string.h>

#include "CCurl.h"
#include "CLinux.h"

CURLcode lanyard_curl_initialise(const struct lanyard_curl *curl) {
    return curl->curl_global_init_mem(
        CURL_GLOBAL_DEFAULT, malloc, lanyard_wiping_free, lanyard_wiping_realloc, strdup, calloc);
}

#include <openssl/crypto.h>

// The test program ends by exit(), and a test that has failed may leave a loop inside OpenSSL: OpenSSL's own cleanup at exit would take
// away what that thread uses (SIGSEGV after the last test, and no report).
__attribute__((constructor)) static void keep_openssl_at_exit(void) { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL); }

/* A target of its own: with each commit this file is compiled anew, and nothing else. */
#include "build_commit.h"

#ifndef LANYARD_COMMIT
#define LANYARD_COMMIT "unknown"
#endif

const char *lanyard_build_commit(void) { return LANYARD_COMMIT; }

/* A target of its own: with each commit this file is compiled anew, and nothing else. */
#include "build_commit.h"

#ifndef LANYARD_COMMIT
#define LANYARD_COMMIT "unknown"
#endif

#ifndef LANYARD_VERSION
#define LANYARD_VERSION ""
#endif

const char *lanyard_build_commit(void) { return LANYARD_COMMIT; }

const char *lanyard_build_version(void) { return LANYARD_VERSION; }

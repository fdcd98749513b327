#ifndef LANYARD_BUILD_COMMIT_H
#define LANYARD_BUILD_COMMIT_H

/* The commit that this build was made of, "-dirty" behind it if files had been changed since; "unknown" if none was given. */
const char *lanyard_build_commit(void);

#endif

#ifndef LANYARD_BUILD_COMMIT_H
#define LANYARD_BUILD_COMMIT_H

/* The commit that this build was made of, "-dirty" behind it if files had been changed since; "unknown" if none was given. */
const char *lanyard_build_commit(void);

/* The version that was given to this build (deploy/package --version); empty if none was. */
const char *lanyard_build_version(void);

#endif

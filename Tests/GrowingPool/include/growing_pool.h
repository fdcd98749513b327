#ifndef LANYARD_GROWING_POOL_H
#define LANYARD_GROWING_POOL_H

/* How many threads the pool has started so far. */
int lanyard_pool_threads(void);

#endif

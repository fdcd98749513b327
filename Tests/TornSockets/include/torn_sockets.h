/// Tears what the code under test reads and writes, on real sockets: a call takes fewer bytes than it could, as a network may do at any byte.
///
/// The test program defines `recv`, `send`, `sendmsg`, `epoll_ctl` and `close` itself, so that they stand before libc's. Only sockets that an epoll
/// watches and whose own or peer's address has been named here are torn; after each tear the socket is armed anew, as if more had come.
#pragma once
#include <stdint.h>

typedef struct {
    /// No call moves more bytes than this; 0 is no limit.
    int64_t most;
    /// No call moves bytes from both sides of this place in the stream; negative is none.
    int64_t cut;
} lanyard_tear;

/// Tears sockets whose own port (`local` != 0) or peer's port is `port`, from their next registration on.
void lanyard_tear_port(uint16_t port, int local, lanyard_tear reads, lanyard_tear writes);

/// The same by a unix socket's path.
void lanyard_tear_path(const char *path, int local, lanyard_tear reads, lanyard_tear writes);

/// The next `count` sockets whose peer's address is the unix socket `path` break at their first write (EPIPE) and take no byte.
void lanyard_break_path(const char *path, int count);

/// How many calls have been torn so far.
uint64_t lanyard_tears(void);

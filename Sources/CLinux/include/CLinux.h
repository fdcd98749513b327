/* Shims of Linux calls that are hidden behind _GNU_SOURCE, variadic, or macros. _GNU_SOURCE itself stays in linux.c:
 * defined in a header it clashes with Swift's own view of Glibc. Beside them comparisons of whole vectors, which Swift has none of. */
#ifndef CLINUX_H
#define CLINUX_H

#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>

/* accept4(SOCK_NONBLOCK | SOCK_CLOEXEC); the peer's address is not asked for. */
int lanyard_accept(int listener, struct sockaddr *address, socklen_t *length);

/* malloc_trim(): gives the kernel back what free() has kept. Takes milliseconds, and every arena's lock in turn. */
void lanyard_return_memory(void);

/* From now on blocks of 128 KiB and more that no heap has room for are mapped, and free() gives them back to the kernel at once. */
void lanyard_return_large_blocks(void);

/* Takes the pages of code out of the process, its libraries' too. They stay in the page cache, and each comes back when it is executed. */
void lanyard_return_code(void);

/* A pointer that each thread has for itself, NULL at first. Unlike a key of pthread_setspecific() it is always there. */
void *lanyard_thread_note(void);
void lanyard_set_thread_note(void *note);

/* EPOLL events' 64-bit user data: a union in C, which Swift sees packed; these keep the layout in one place. */
static inline struct epoll_event lanyard_epoll_event(uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data = {.u64 = data}};
    return event;
}
static inline uint64_t lanyard_epoll_data(const struct epoll_event *event) { return event->data.u64; }

/* EPOLLEXCLUSIVE and EPOLLET are unsigned constants beyond Int32, which Swift imports with differing types. */
static const uint32_t lanyard_EPOLLEXCLUSIVE = 1u << 28;
static const uint32_t lanyard_EPOLLET = 1u << 31;

/* SO_PEERCRED: 0 and the three ids, or -1. struct ucred needs _GNU_SOURCE. */
int lanyard_peer_credentials(int socket, uint32_t *uid, uint32_t *gid, int32_t *pid);

/* Bytes that a TCP socket has received in order since it was made, whether read or not; 0: it is no TCP socket, or the kernel does not
   say. */
uint64_t lanyard_tcp_received(int socket);

/* Whether a TCP connection is no longer open in both directions, such as when the peer has closed: 1, else 0. */
int lanyard_tcp_has_end(int socket);

/* Whether the other end of a TCP connection is a socket of this network namespace that no process holds (sock_diag(7)): 1, else 0. What
 * the kernel does not know or does not tell counts as held. */
int lanyard_is_peer_orphaned(int socket);

/* Takes a read lease (fcntl(2), F_SETLEASE) on a file that is open for reading only: 0 if no process has it open for writing. Until the
 * descriptor is closed, an open for writing then waits. -1 with errno otherwise: EAGAIN, a process writes it; EACCES, it belongs to
 * another account; EINVAL, its file system has no leases. The signal about a waiting writer is SIGURG, which is ignored. The default,
 * SIGIO, would end the process. */
int lanyard_take_read_lease(int descriptor);

/* statfs(2): the magic number of the file system that the path is on, or -1 with errno. */
int64_t lanyard_file_system_type(const char *path);

/* CPUs of sched_getaffinity(), or -1. */
int lanyard_cpu_count(void);

/* prctl() is variadic. Each returns 0 or -1 with errno. */
int lanyard_set_not_dumpable(void);

/* res_init() and then 2 s and one try per name server, for the calling thread only (_res is a macro). */
void lanyard_limit_resolver(void);

/* The arguments that execve() gave the program, its name included. Swift's CommandLine reads them from /proc/self/cmdline, and has only
 * an empty name where /proc is not mounted. */
int lanyard_argument_count(void);
const char *lanyard_argument(int index);

/* For the next lookups of this thread, after lanyard_limit_resolver(): whether names are completed by the search list of
 * resolv.conf(5), and the seconds that a name server has. */
void lanyard_prepare_lookup(_Bool searches, int server_seconds);

/* The environment, as execve() left it: `environ` itself is a mutable global, which Swift 6 refuses. */
char *const *lanyard_environment(void);

/* explicit_bzero() under a name that Swift always sees. */
void lanyard_wipe(void *bytes, size_t count);

/* free() and realloc() that wipe what they give back: libcurl and OpenSSL hold tokens and passwords in their buffers. */
void lanyard_wiping_free(void *block);
void *lanyard_wiping_realloc(void *block, size_t size);

/* A clock's time in nanoseconds; struct timespec would be seen as belonging to two modules. */
int64_t lanyard_clock(int clock);

/* A timerfd for an absolute time of its clock in nanoseconds; 0 disarms. */
void lanyard_timer_set(int timer, int64_t nanoseconds);

/* Blocks these signals for the calling thread and all that it starts from here on: they wait for the signalfd that is returned.
 * -1 with errno if there is none; nothing is blocked then. */
int lanyard_hold_signals(const int *signals, int count);

/* The next signal that a signalfd tells; 0 if none waits. */
int lanyard_next_signal(int descriptor);

/* Opens /dev/null in the place of each of the descriptors 0 to 2 that is closed: 0 for reading, 1 and 2 for writing. Otherwise the next
 * file or socket would get that number. 0, or -1 with errno. Before any other thread. */
int lanyard_open_standard_descriptors(void);

/* Which of the 16 bytes at `bytes` are of a class: bit i is set if byte i is. Clang compiles each function to a few vector instructions;
 * Swift 6.3 compares the bytes of a SIMD16 one by one. */
typedef uint8_t lanyard_block __attribute__((ext_vector_type(16)));
typedef _Bool lanyard_marks __attribute__((ext_vector_type(16)));

static inline lanyard_block lanyard_load(const uint8_t *bytes) {
    lanyard_block block;
    memcpy(&block, bytes, sizeof block);
    return block;
}
static inline uint32_t lanyard_mask(lanyard_marks marks) {
    uint16_t mask;
    memcpy(&mask, &marks, sizeof mask);
    return mask;
}

/* Control bytes, HTAB included: no field value has another one. */
static inline uint32_t lanyard_find_controls(const uint8_t *bytes) {
    lanyard_block block = lanyard_load(bytes);
    return lanyard_mask(__builtin_convertvector(block < 0x20 | block == 0x7f, lanyard_marks));
}

/* All bytes but letters, digits and `-`. A byte below the first of a range wraps around to one above it. */
static inline uint32_t lanyard_find_other_than_plain_name(const uint8_t *bytes) {
    lanyard_block block = lanyard_load(bytes);
    lanyard_block letter = (block | 0x20) - 'a', digit = block - '0';
    return lanyard_mask(__builtin_convertvector(~(letter < 26 | digit < 10 | block == '-'), lanyard_marks));
}

/* All bytes but visible ASCII without `#`: what no request target has. */
static inline uint32_t lanyard_find_other_than_target(const uint8_t *bytes) {
    lanyard_block block = lanyard_load(bytes);
    return lanyard_mask(__builtin_convertvector(block - 0x21 > 0x7e - 0x21 | block == '#', lanyard_marks));
}

/* pthread_setname_np() for the calling thread: at most 15 characters. */
void lanyard_name_thread(const char *name);

#endif

// A library to preload (LD_PRELOAD) into a program under test: threads continue a little later than they could, as on a busy machine, and a
// seed repeats it.
//
//     LD_PRELOAD=.build/debug/libJitter.so JITTER_SEED=7 lanyard run --config lanyard.yaml
//
// One call in a hundred is late by 0 to 20 ms, evenly distributed, and one in ten of those with which a thread wakes up. They are far
// fewer, and what a busy machine delays most. A call that gives something away (send, sendto, sendmsg, write, eventfd_write, a wake by
// futex) is delayed before it, a call that gets something (recv, read) behind it. So are the calls that wait: epoll_wait, sem_wait, a
// wait by futex. A new thread may begin late. Without JITTER_SEED, and in programs of other names, nothing is late. A thread that is
// delayed yields and does not sleep: what waits until all threads sleep (Tests/VirtualClock) must not take it for one that has nothing
// to do.
//
// Each thread draws from a generator of its own, made of the seed and the thread's number. Threads are numbered in the order of their
// first call. A seed repeats as far as the kernel starts the threads in the same order.
//
// Not covered, because libc makes these system calls inside of itself: the futex waits of pthread_mutex_lock and pthread_join. libdispatch
// and Swift's libraries call syscall() for their futexes, which is covered. accept, connect, poll and files are left alone.

#define _GNU_SOURCE
#include "jitter.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint64_t one_call_in = 100, one_wake_in = 10, delay_max_nanoseconds = 20 * 1000 * 1000;

/// 0: nothing is late.
static uint64_t seed;
static atomic_uint_fast64_t threads;
/// The state of this thread's generator; 0: it has made no call yet.
static _Thread_local uint64_t state;

/// Programs that start lanyard have the library, too, and are not delayed.
static int is_delayed(void) {
    const char *name = program_invocation_short_name;
    return strcmp(name, "lanyard") == 0 || strcmp(name, "lanyard-emulator") == 0;
}

__attribute__((constructor)) static void read_seed(void) {
    const char *text = getenv("JITTER_SEED");
    if (text && is_delayed()) seed = strtoull(text, NULL, 10);
}

/// splitmix64.
static uint64_t draw(void) {
    uint64_t mixed = state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(next))dlsym(RTLD_NEXT, #name);

static long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
    NEXT(syscall)
    return next(number, a, b, c, d, e, f);
}

/// The kernel's, also where a test moves the program's clock.
static int64_t kernel_time(void) {
    struct timespec time;
    call_kernel(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&time, 0, 0, 0, 0);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void delay_once_in(uint64_t calls) {
    if (seed == 0) return;
    if (state == 0) state = seed * 0xd1342543de82ef95 + atomic_fetch_add(&threads, 1);
    if (draw() % calls != 0) return;
    int saved = errno;
    int64_t end = kernel_time() + (int64_t)(draw() % delay_max_nanoseconds);
    while (kernel_time() < end) sched_yield();
    errno = saved;
}

static void jitter(void) { delay_once_in(one_call_in); }

static void wake_late(void) { delay_once_in(one_wake_in); }

ssize_t send(int socket, const void *bytes, size_t count, int flags) {
    NEXT(send)
    jitter();
    return next(socket, bytes, count, flags);
}

ssize_t sendto(
    int socket, const void *bytes, size_t count, int flags, const struct sockaddr *address, socklen_t length) {
    NEXT(sendto)
    jitter();
    return next(socket, bytes, count, flags, address, length);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    NEXT(sendmsg)
    jitter();
    return next(socket, message, flags);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    NEXT(write)
    jitter();
    return next(descriptor, bytes, count);
}

int eventfd_write(int descriptor, eventfd_t value) {
    NEXT(eventfd_write)
    jitter();
    return next(descriptor, value);
}

ssize_t recv(int socket, void *bytes, size_t count, int flags) {
    NEXT(recv)
    ssize_t result = next(socket, bytes, count, flags);
    jitter();
    return result;
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    NEXT(read)
    ssize_t result = next(descriptor, bytes, count);
    jitter();
    return result;
}

int epoll_wait(int descriptor, struct epoll_event *events, int count, int milliseconds) {
    NEXT(epoll_wait)
    int result = next(descriptor, events, count, milliseconds);
    wake_late();
    return result;
}

int sem_wait(sem_t *semaphore) {
    NEXT(sem_wait)
    int result = next(semaphore);
    wake_late();
    return result;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    NEXT(sem_timedwait)
    int result = next(semaphore, until);
    wake_late();
    return result;
}

long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long),
         e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    int operation = number == SYS_futex ? (int)b & FUTEX_CMD_MASK : -1;
    if (operation == FUTEX_WAKE || operation == FUTEX_UNLOCK_PI) jitter();
    long result = call_kernel(number, a, b, c, d, e, f);
    if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI) wake_late();
    return result;
}

struct beginning {
    void *(*routine)(void *);
    void *argument;
};

static void *begin_late(void *memory) {
    struct beginning beginning = *(struct beginning *)memory;
    free(memory);
    wake_late();
    return beginning.routine(beginning.argument);
}

int pthread_create(
    pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*routine)(void *),
    void *restrict argument) {
    NEXT(pthread_create)
    struct beginning *beginning = malloc(sizeof *beginning);
    if (!beginning) return EAGAIN;
    *beginning = (struct beginning){routine, argument};
    int result = next(thread, attributes, begin_late, beginning);
    if (result != 0) free(beginning);
    return result;
}

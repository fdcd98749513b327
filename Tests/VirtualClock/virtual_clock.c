// A library to preload (LD_PRELOAD) into programs under test: a clock that a test stops, and whose time it passes.
//
// The page that the variable VIRTUAL_CLOCK_PAGE names (Tests/ClockPage) holds the time. All programs with the same page have the same time.
// Tests start them with a `TestClock` (Tests/TestSupport). Under the clock are:
//
// - what tells the time: clock_gettime, time, gettimeofday, of the clocks boot time, monotonic and real time;
// - timerfds of these clocks;
// - waits with a limit: sem_timedwait, sem_clockwait, futex(2) by syscall(2) (libdispatch's semaphores, groups and idle threads);
// - sleeps: nanosleep, clock_nanosleep, usleep, sleep.
//
// Connections that the programs accept send at once (TCP_NODELAY).
//
// A thread of the library waits for changes of the page. It then lets timers and waits end whose time has come. Each process writes its
// earliest deadline into the page, so that the test can step from one to the next.
//
// Not under the clock: what the kernel measures itself (time stamps of files, socket options, keep-alive), limits of poll, select and
// epoll_wait, which last as long as they say, and calls within libc (the resolver's). pthread_cond_timedwait and timers with an interval
// end the program with a message: nothing uses them.

#define _GNU_SOURCE
#include "virtual_clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ClockPage.h"

#define SECOND 1000000000LL

static struct clock_page *page;
static struct clock_slot *slot;

/// A system call without libc's `syscall`, which this file replaces, and without dlsym(3), which needs a sanitizer's runtime to be ready.
static long kernel(long number, long a, long b, long c, long d, long e, long f) {
    long result;
#if defined(__x86_64__)
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long call __asm__("x8") = number;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    register long sixth __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(first)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    result = first;
#else
#error "no system calls for this machine"
#endif
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

/// Since the test's clock was made.
static int64_t now(void) {
    int64_t time = atomic_load(&page->time);
    struct timespec boottime = {0};
    if (time & 1) kernel(SYS_clock_gettime, CLOCK_BOOTTIME, (long)&boottime, 0, 0, 0, 0);
    return clock_page_elapsed(time, boottime.tv_sec * SECOND + boottime.tv_nsec);
}

static void stop_program(const char *what) {
    char text[200];
    int count = snprintf(text, sizeof text, "virtual clock: %s\n", what);
    kernel(SYS_write, 2, (long)text, count, 0, 0, 0);
    abort();
}

static int64_t nanoseconds(const struct timespec *time) { return time->tv_sec * SECOND + time->tv_nsec; }

static struct timespec timespec_of(int64_t time) {
    return (struct timespec){.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
}

/// What a clock showed when the test's clock was made; -1: this clock is not under it.
static int64_t origin(clockid_t clock) {
    if (!page) return -1;
    switch (clock) {
    case CLOCK_BOOTTIME: return page->boottime;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE: return page->monotonic;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return page->realtime;
    default: return -1;
    }
}

// MARK: What tells the time

int clock_gettime(clockid_t clock, struct timespec *time) {
    int64_t start = origin(clock);
    if (start < 0) return (int)kernel(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
    *time = timespec_of(start + now());
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *result = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    (void)zone;
    return 0;
}

// MARK: Timers and waits, by their ends

/// A lock that needs nothing of libc: it is taken before a sanitizer's runtime has begun, too.
static _Atomic uint32_t lock_word;

static void lock(void) {
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(&lock_word, &free, 1)) return;
    while (atomic_exchange(&lock_word, 2) != 0) kernel(SYS_futex, (long)&lock_word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static void unlock(void) {
    if (atomic_exchange(&lock_word, 0) == 2) kernel(SYS_futex, (long)&lock_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/// An armed or disarmed timerfd.
struct timer {
    int descriptor;
    int64_t origin;
    /// Since the clock was made; `CLOCK_NEVER`: disarmed or expired.
    int64_t due;
};

#define TIMERS_MAX 1024
static struct timer timers[TIMERS_MAX];
static int timer_count;

enum kind { SLEEPER, SEMAPHORE, FUTEX };

/// A thread that waits with a limit. It lies on that thread's stack.
struct waiter {
    struct waiter *next;
    enum kind kind;
    int64_t due;
    /// The semaphore, or the futex's word.
    void *object;
    _Atomic uint32_t has_expired;
};
static struct waiter *waiters;

/// Under the lock: tells the test when this process's earliest deadline is.
static void publish(void) {
    int64_t next = CLOCK_NEVER;
    for (int index = 0; index < timer_count; index++)
        if (timers[index].due < next) next = timers[index].due;
    for (struct waiter *waiter = waiters; waiter; waiter = waiter->next)
        if (!atomic_load(&waiter->has_expired) && waiter->due < next) next = waiter->due;
    // The clock's thread waits for the former one if the clock runs.
    if (next < atomic_exchange(&slot->next, next) && atomic_load(&page->time) & 1) {
        atomic_fetch_add(&slot->wakeups, 1);
        kernel(SYS_futex, (long)&slot->wakeups, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
    }
}

/// Under the lock.
static struct timer *find_timer(int descriptor) {
    for (int index = 0; index < timer_count; index++)
        if (timers[index].descriptor == descriptor) return &timers[index];
    return NULL;
}

/// Under the lock.
static void forget_timer(int descriptor) {
    struct timer *timer = find_timer(descriptor);
    if (timer) *timer = timers[--timer_count];
}

/// Under the lock.
static struct timer *add_timer(int descriptor, clockid_t clock) {
    forget_timer(descriptor);
    int64_t start = origin(clock);
    if (start < 0) return NULL;
    if (timer_count == TIMERS_MAX) stop_program("too many timers");
    timers[timer_count] = (struct timer){.descriptor = descriptor, .origin = start, .due = CLOCK_NEVER};
    return &timers[timer_count++];
}

/// The clock of a timerfd that was made before the library was there or is a duplicate; -1: it is none.
static int clock_of(int descriptor) {
    char name[64], text[512];
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", descriptor);
    long file = kernel(SYS_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (file < 0) return -1;
    long count = kernel(SYS_read, file, (long)text, sizeof text - 1, 0, 0, 0);
    kernel(SYS_close, file, 0, 0, 0, 0, 0);
    text[count > 0 ? count : 0] = 0;
    char *line = strstr(text, "clockid: ");
    return line ? atoi(line + 9) : -1;
}

/// Under the lock: gives the kernel's timer its state. It fires at once if its time has come, otherwise never by itself.
static void arm(struct timer *timer) {
    int has_expired = timer->due <= now();
    // An absolute time in the past.
    struct itimerspec setting = {.it_value = {.tv_nsec = has_expired ? 1 : 0}};
    kernel(SYS_timerfd_settime, timer->descriptor, TFD_TIMER_ABSTIME, (long)&setting, 0, 0, 0);
    if (has_expired) timer->due = CLOCK_NEVER;
}

int timerfd_create(clockid_t clock, int flags) {
    int descriptor = (int)kernel(SYS_timerfd_create, clock, flags, 0, 0, 0, 0);
    if (descriptor < 0 || !page) return descriptor;
    lock();
    add_timer(descriptor, clock);
    unlock();
    return descriptor;
}

int timerfd_settime(int descriptor, int flags, const struct itimerspec *setting, struct itimerspec *former) {
    if (!page) return (int)kernel(SYS_timerfd_settime, descriptor, flags, (long)setting, (long)former, 0, 0);
    lock();
    struct timer *timer = find_timer(descriptor);
    if (!timer) {
        int clock = clock_of(descriptor);
        timer = clock < 0 ? NULL : add_timer(descriptor, clock);
    }
    if (!timer) {
        unlock();
        return (int)kernel(SYS_timerfd_settime, descriptor, flags, (long)setting, (long)former, 0, 0);
    }
    if (nanoseconds(&setting->it_interval) != 0) stop_program("a timer has an interval");
    int64_t present = now(), value = nanoseconds(&setting->it_value);
    if (former)
        *former = (struct itimerspec){.it_value = timespec_of(timer->due == CLOCK_NEVER ? 0 : timer->due - present)};
    timer->due = value == 0 ? CLOCK_NEVER : flags & TFD_TIMER_ABSTIME ? value - timer->origin : present + value;
    // First, as the test reads it after it has passed time (clock_page_advance).
    publish();
    arm(timer);
    if (timer->due == CLOCK_NEVER) publish();
    unlock();
    return 0;
}

int timerfd_gettime(int descriptor, struct itimerspec *setting) {
    lock();
    struct timer *timer = page ? find_timer(descriptor) : NULL;
    if (timer)
        *setting = (struct itimerspec){
            .it_value = timespec_of(timer->due == CLOCK_NEVER ? 0 : timer->due - now())};
    unlock();
    return timer ? 0 : (int)kernel(SYS_timerfd_gettime, descriptor, (long)setting, 0, 0, 0, 0);
}

/// A number that is closed or taken over belongs to no timer any more.
static void note_closed(int descriptor) {
    if (!page) return;
    lock();
    if (find_timer(descriptor)) {
        forget_timer(descriptor);
        publish();
    }
    unlock();
}

int close(int descriptor) {
    note_closed(descriptor);
    return (int)kernel(SYS_close, descriptor, 0, 0, 0, 0, 0);
}

int dup2(int former, int descriptor) {
    if (former != descriptor) note_closed(descriptor);
    if (former == descriptor) return kernel(SYS_fcntl, former, F_GETFD, 0, 0, 0, 0) < 0 ? -1 : descriptor;
    return (int)kernel(SYS_dup3, former, descriptor, 0, 0, 0, 0);
}

int dup3(int former, int descriptor, int flags) {
    note_closed(descriptor);
    return (int)kernel(SYS_dup3, former, descriptor, flags, 0, 0, 0);
}

// MARK: Connections

/// Without TCP_NODELAY the kernel holds the second of two short writes back until the first is acknowledged, up to 40 ms of real time. All
/// threads sleep then, although a message is on its way. The emulator's server does not set it.
static int send_at_once(int descriptor) {
    int is_on = 1;
    if (page && descriptor >= 0)
        kernel(SYS_setsockopt, descriptor, IPPROTO_TCP, TCP_NODELAY, (long)&is_on, sizeof is_on, 0);
    return descriptor;
}

int accept4(int descriptor, struct sockaddr *restrict address, socklen_t *restrict size, int flags) {
    return send_at_once((int)kernel(SYS_accept4, descriptor, (long)address, (long)size, flags, 0, 0));
}

int accept(int descriptor, struct sockaddr *restrict address, socklen_t *restrict size) {
    return accept4(descriptor, address, size, 0);
}

// MARK: Waits

static void begin_wait(struct waiter *waiter) {
    lock();
    waiter->next = waiters;
    waiters = waiter;
    publish();
    unlock();
}

/// Under the lock.
static void remove_waiter(struct waiter *waiter) {
    struct waiter **place = &waiters;
    while (*place != waiter) place = &(*place)->next;
    *place = waiter->next;
    publish();
}

/// A sleep up to a time since the clock was made.
static void sleep_until(int64_t due) {
    struct waiter waiter = {.kind = SLEEPER, .due = due};
    begin_wait(&waiter);
    while (!atomic_load(&waiter.has_expired) && due > now())
        kernel(SYS_futex, (long)&waiter.has_expired, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    lock();
    remove_waiter(&waiter);
    unlock();
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    int64_t start = origin(clock);
    if (start < 0) {
        int (*next)(clockid_t, int, const struct timespec *, struct timespec *) = dlsym(RTLD_NEXT, "clock_nanosleep");
        return next(clock, flags, time, left);
    }
    sleep_until(flags & TIMER_ABSTIME ? nanoseconds(time) - start : now() + nanoseconds(time));
    return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left) {
    int code = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    if (code != 0) errno = code;
    return code == 0 ? 0 : -1;
}

int usleep(useconds_t time) {
    struct timespec request = timespec_of(time * 1000LL);
    return nanosleep(&request, NULL);
}

unsigned sleep(unsigned seconds) {
    struct timespec request = {.tv_sec = seconds};
    nanosleep(&request, NULL);
    return 0;
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict end) {
    int64_t start = origin(clock);
    if (start < 0) {
        int (*next)(sem_t *, clockid_t, const struct timespec *) = dlsym(RTLD_NEXT, "sem_clockwait");
        return next(semaphore, clock, end);
    }
    if (sem_trywait(semaphore) == 0) return 0;
    struct waiter waiter = {.kind = SEMAPHORE, .due = nanoseconds(end) - start, .object = semaphore};
    if (waiter.due <= now()) {
        errno = ETIMEDOUT;
        return -1;
    }
    begin_wait(&waiter);
    int is_interrupted = 0;
    while (1) {
        // The library's thread may have come before `begin_wait`.
        if (waiter.due <= now() && !atomic_exchange(&waiter.has_expired, 1)) break;
        is_interrupted = sem_wait(semaphore) != 0;
        lock();
        // The library's thread posts once for each wait that expires. Who took that post for another's passes it on.
        int is_others = 0;
        for (struct waiter *other = waiters; other; other = other->next)
            if (other != &waiter && other->object == semaphore && atomic_load(&other->has_expired)) is_others = 1;
        unlock();
        if (is_interrupted || atomic_load(&waiter.has_expired) || !is_others) break;
        sem_post(semaphore);
        kernel(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
    lock();
    remove_waiter(&waiter);
    unlock();
    if (is_interrupted) return -1;
    if (!atomic_load(&waiter.has_expired)) return 0;
    errno = ETIMEDOUT;
    return -1;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict end) {
    return sem_clockwait(semaphore, CLOCK_REALTIME, end);
}

/// FUTEX_WAIT and FUTEX_WAIT_BITSET with a limit.
static long wait_on_futex(void *word, int operation, long value, const struct timespec *limit, long f) {
    int64_t due = now() + nanoseconds(limit);
    if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
        due = nanoseconds(limit) - (operation & FUTEX_CLOCK_REALTIME ? page->realtime : page->monotonic);
    struct waiter waiter = {.kind = FUTEX, .due = due, .object = word};
    begin_wait(&waiter);
    long result = 0;
    int code = 0;
    if (due > now()) {
        result = kernel(SYS_futex, (long)word, operation & ~FUTEX_CLOCK_REALTIME, value, 0, 0, f);
        code = errno;
    }
    lock();
    remove_waiter(&waiter);
    unlock();
    errno = code;
    if (result != 0 || due > now()) return result;
    errno = ETIMEDOUT;
    return -1;
}

long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long);
    long e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    int command = (int)b & FUTEX_CMD_MASK;
    if (page && number == SYS_futex && d && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET))
        return wait_on_futex((void *)a, (int)b, c, (const struct timespec *)d, f);
    return kernel(number, a, b, c, d, e, f);
}

int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict end) {
    if (page) stop_program("pthread_cond_timedwait is not under the clock");
    int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
        dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return next(condition, mutex, end);
}

int pthread_cond_clockwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
    const struct timespec *restrict end) {
    if (page) stop_program("pthread_cond_clockwait is not under the clock");
    int (*next)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *) =
        dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    return next(condition, mutex, clock, end);
}

// MARK: The library's thread

/// Lets expired timers fire and expired waits end.
///
/// - Returns: whether an expired futex wait has not ended. Its thread may not have begun to wait when it was woken.
static int expire(void) {
    lock();
    int64_t present = now();
    for (int index = 0; index < timer_count; index++)
        if (timers[index].due <= present) arm(&timers[index]);
    int is_pending = 0;
    for (struct waiter *waiter = waiters; waiter; waiter = waiter->next) {
        if (waiter->due > present) continue;
        int is_first = !atomic_exchange(&waiter->has_expired, 1);
        switch (waiter->kind) {
        case SLEEPER: kernel(SYS_futex, (long)&waiter->has_expired, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0); break;
        case SEMAPHORE:
            if (is_first) sem_post(waiter->object);
            break;
        case FUTEX:
            kernel(SYS_futex, (long)waiter->object, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
            is_pending = 1;
            break;
        }
    }
    publish();
    unlock();
    return is_pending;
}

static void *follow(void *first) {
    uint32_t seen = (uint32_t)(uintptr_t)first;
    while (1) {
        uint32_t wakeups = atomic_load(&slot->wakeups), generation = atomic_load(&page->generation);
        struct timespec pause = {.tv_nsec = 100000};
        while (expire()) kernel(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
        if (generation != seen) {
            seen = generation;
            atomic_store(&slot->seen, seen);
            atomic_fetch_add(&page->answers, 1);
            kernel(SYS_futex, (long)&page->answers, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
        }
        int64_t next = atomic_load(&slot->next);
        int has_limit = next != CLOCK_NEVER && atomic_load(&page->time) & 1;
        int64_t left = has_limit ? next - now() : 0;
        struct timespec limit = timespec_of(left > 0 ? left : 0);
        kernel(SYS_futex, (long)&slot->wakeups, FUTEX_WAIT, wakeups, has_limit ? (long)&limit : 0, 0, 0);
    }
    return NULL;
}

/// Takes the slot that the process had before exec(2), else a free one.
static void take_slot(void) {
    int32_t own = (int32_t)kernel(SYS_getpid, 0, 0, 0, 0, 0, 0);
    slot = NULL;
    for (int index = 0; !slot && index < CLOCK_SLOTS_MAX; index++)
        if (atomic_load(&page->slots[index].pid) == own) slot = &page->slots[index];
    for (int index = 0; !slot && index < CLOCK_SLOTS_MAX; index++) {
        int32_t free = 0;
        if (atomic_compare_exchange_strong(&page->slots[index].pid, &free, own)) slot = &page->slots[index];
    }
    if (!slot) stop_program("too many processes");
    atomic_store(&slot->next, CLOCK_NEVER);
}

static void begin_to_follow(void) {
    take_slot();
    uint32_t seen = atomic_load(&page->generation);
    atomic_store(&slot->seen, seen);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    // The program's signals are for its own threads.
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, follow, (void *)(uintptr_t)seen) != 0) stop_program("no thread");
    pthread_setname_np(thread, "virtual clock");
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    pthread_attr_destroy(&attributes);
}

/// In the child of fork(2), which has one thread.
static void begin_as_child(void) {
    lock_word = 0;
    waiters = NULL;
    begin_to_follow();
    publish();
}

static int has_slot(pid_t pid) {
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++)
        if (atomic_load(&page->slots[index].pid) == pid) return 1;
    return 0;
}

/// Returns in the parent when the test sees the child, or the child has ended. Until then the parent runs, so no time passes.
pid_t fork(void) {
    pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    pid_t child = next();
    int code = errno;
    while (page && child > 0 && !has_slot(child)) {
        siginfo_t end = {0};
        kernel(SYS_waitid, P_PID, child, (long)&end, WEXITED | WNOHANG | WNOWAIT, 0, 0);
        if (end.si_pid == child) break;
        kernel(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
    errno = code;
    return child;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv(CLOCK_PAGE_VARIABLE);
    if (!path) return;
    long file = kernel(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
    if (file < 0) stop_program("the page cannot be opened");
    void *memory = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, (int)file, 0);
    kernel(SYS_close, file, 0, 0, 0, 0, 0);
    if (memory == MAP_FAILED) stop_program("the page cannot be mapped");
    page = memory;
    begin_to_follow();
    pthread_atfork(lock, unlock, begin_as_child);
}

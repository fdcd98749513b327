// The page that a test and the programs under its clock share (Tests/VirtualClock), and the test's side of it.
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/// Processes that are under one clock at the same time.
#define CLOCK_SLOTS_MAX 62
/// The variable that holds the path of the page.
#define CLOCK_PAGE_VARIABLE "VIRTUAL_CLOCK_PAGE"
/// No deadline.
#define CLOCK_NEVER INT64_MAX

/// One process under the clock.
struct clock_slot {
    /// 0: the slot is free.
    _Atomic int32_t pid;
    /// Changes when the process's clock thread has to look. It waits on it (futex(2)).
    _Atomic uint32_t wakeups;
    /// The generation of the page that the process has acted on.
    _Atomic uint32_t seen;
    /// When its earliest timer or wait ends, in nanoseconds since the clock was made; `CLOCK_NEVER`: it waits for no time.
    _Atomic int64_t next;
    /// No two processes share a cache line.
    char padding[40];
};

/// All times are nanoseconds.
struct clock_page {
    /// Counts the changes of `time`.
    _Atomic uint32_t generation;
    /// Counts the processes that have acted on a generation. The test waits on it (futex(2)).
    _Atomic uint32_t answers;
    /// Twice the time since the clock was made, if it stands. If it runs, twice the boot time at which it would have been zero, and one.
    _Atomic int64_t time;
    /// What the kernel's clocks showed when the clock was made.
    int64_t boottime, monotonic, realtime;
    char padding[24];
    struct clock_slot slots[CLOCK_SLOTS_MAX];
};

/// The time since the clock was made, if `time` was read at this boot time.
static inline int64_t clock_page_elapsed(int64_t time, int64_t boottime) {
    return time & 1 ? boottime - (time >> 1) : time >> 1;
}

/// `CLOCK_PAGE_VARIABLE`.
const char *clock_page_variable(void);

/// Makes the page of a clock that runs.
void clock_page_begin(struct clock_page *page);

/// The time since the clock was made.
int64_t clock_page_now(struct clock_page *page);

/// Whether the clock runs.
int clock_page_runs(struct clock_page *page);

/// Sets the time and tells each process. The clock stands, or runs from that time.
void clock_page_set(struct clock_page *page, int64_t elapsed, int runs);

/// Passes the time of a clock that stands, while every thread of every process sleeps. Wakes only processes with a deadline up to then.
void clock_page_advance(struct clock_page *page, int64_t elapsed);

/// Waits at most a millisecond for a process that has not yet acted on the latest generation. Frees the slots of processes that have ended.
///
/// - Returns: whether all have.
int clock_page_is_followed(struct clock_page *page);

/// The earliest deadline of all processes; `CLOCK_NEVER` without one.
int64_t clock_page_next(struct clock_page *page);

/// Whether at one moment of this call every thread of every process under the clock was asleep, and `count` threads of this process.
///
/// A thread sleeps if two looks find it asleep and it has not run between them.
int clock_page_is_quiet(struct clock_page *page, const pid_t *own, int count);

/// The name and the state of each thread that is not asleep, for the message of a failure.
void clock_page_describe(struct clock_page *page, char *text, int size);

/// The kernel's id of the calling thread.
pid_t clock_page_thread(void);

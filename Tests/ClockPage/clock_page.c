#define _GNU_SOURCE
#include "ClockPage.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t kernel_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

const char *clock_page_variable(void) { return CLOCK_PAGE_VARIABLE; }

void clock_page_begin(struct clock_page *page) {
    page->boottime = kernel_clock(CLOCK_BOOTTIME);
    page->monotonic = kernel_clock(CLOCK_MONOTONIC);
    page->realtime = kernel_clock(CLOCK_REALTIME);
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++) atomic_store(&page->slots[index].next, CLOCK_NEVER);
    clock_page_set(page, 0, 1);
}

int64_t clock_page_now(struct clock_page *page) {
    return clock_page_elapsed(atomic_load(&page->time), kernel_clock(CLOCK_BOOTTIME));
}

int clock_page_runs(struct clock_page *page) { return (int)(atomic_load(&page->time) & 1); }

static void wake(struct clock_slot *slot) {
    atomic_fetch_add(&slot->wakeups, 1);
    syscall(SYS_futex, &slot->wakeups, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void clock_page_set(struct clock_page *page, int64_t elapsed, int runs) {
    atomic_store(&page->time, (runs ? kernel_clock(CLOCK_BOOTTIME) - elapsed : elapsed) * 2 + (runs ? 1 : 0));
    atomic_fetch_add(&page->generation, 1);
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++)
        if (atomic_load(&page->slots[index].pid) != 0) wake(&page->slots[index]);
}

void clock_page_advance(struct clock_page *page, int64_t elapsed) {
    atomic_store(&page->time, elapsed * 2);
    uint32_t generation = atomic_fetch_add(&page->generation, 1) + 1;
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++) {
        struct clock_slot *slot = &page->slots[index];
        if (atomic_load(&slot->pid) == 0) continue;
        // A deadline that a thread sets now, it compares with the new time itself: the thread writes `next` before it reads the time.
        if (atomic_load(&slot->next) > elapsed)
            atomic_store(&slot->seen, generation);
        else
            wake(slot);
    }
}

/// Reads a file of /proc; -1: there is none, as when the thread or process has ended.
static int read_file(int folder, const char *name, char *text, int size) {
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    int count = (int)read(file, text, size - 1);
    close(file);
    if (count < 0) return -1;
    text[count] = 0;
    return count;
}

/// The state of a process or thread in the kernel's letters (proc_pid_stat(5)); 0: it has ended.
static char state_of(int folder, const char *name) {
    char text[512];
    if (read_file(folder, name, text, sizeof text) < 0) return 0;
    // The state is after the name, which is in parentheses and may hold any byte.
    char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] != 'Z' && end[2] != 'X' ? end[2] : 0;
}

static int has_ended(int32_t pid) {
    char name[32];
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    return state_of(AT_FDCWD, name) == 0;
}

int clock_page_is_followed(struct clock_page *page) {
    uint32_t answers = atomic_load(&page->answers), generation = atomic_load(&page->generation);
    int is_followed = 1;
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++) {
        struct clock_slot *slot = &page->slots[index];
        int32_t pid = atomic_load(&slot->pid);
        if (pid == 0 || atomic_load(&slot->seen) == generation) continue;
        if (has_ended(pid)) {
            atomic_store(&slot->next, CLOCK_NEVER);
            atomic_compare_exchange_strong(&slot->pid, &pid, 0);
        } else {
            is_followed = 0;
        }
    }
    struct timespec limit = {.tv_nsec = 1000000};
    if (!is_followed) syscall(SYS_futex, &page->answers, FUTEX_WAIT, answers, &limit, NULL, 0);
    return is_followed;
}

int64_t clock_page_next(struct clock_page *page) {
    int64_t next = CLOCK_NEVER;
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++) {
        if (atomic_load(&page->slots[index].pid) == 0) continue;
        int64_t own = atomic_load(&page->slots[index].next);
        if (own < next) next = own;
    }
    return next;
}

/// What two observations compare.
struct look {
    pid_t thread;
    long long turns;
    /// It has ended. The first thread stays so for as long as its process lives.
    int has_ended;
};

/// Notes one thread. 0: it does not sleep.
static int look_at(int folder, const char *thread, struct look *look) {
    char name[32], text[4096];
    snprintf(name, sizeof name, "%s/status", thread);
    look->thread = atoi(thread);
    look->turns = 0;
    look->has_ended = 0;
    if (read_file(folder, name, text, sizeof text) < 0) return 1;
    char *state = strstr(text, "\nState:\t");
    if (!state || !strchr("STtZX", state[8])) return 0;
    look->has_ended = strchr("ZX", state[8]) != NULL;
    for (char *line = strstr(text, "voluntary_ctxt_switches:"); line; line = strstr(line + 1, "voluntary_ctxt_switches:"))
        look->turns += atoll(line + strlen("voluntary_ctxt_switches:"));
    return 1;
}

/// Notes every thread of a process. -1: one does not sleep, or there are more than `size`, or the process has ended and its parent has not
/// noticed: time that passes until then would look like time that the end took.
static int look_at_process(int32_t pid, struct look *looks, int size) {
    char name[32];
    snprintf(name, sizeof name, "/proc/%d/task", pid);
    DIR *folder = opendir(name);
    if (!folder) return 0;
    int count = 0;
    struct dirent *entry;
    while (count >= 0 && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.') continue;
        count = count < size && look_at(dirfd(folder), entry->d_name, looks + count) ? count + 1 : -1;
    }
    closedir(folder);
    int ended = 0;
    for (int index = 0; index < count; index++) ended += looks[index].has_ended;
    return count > 0 && ended == count ? -1 : count;
}

#define THREADS_MAX 4096

static int look_at_all(struct clock_page *page, const pid_t *own, int own_count, struct look *looks) {
    int count = 0;
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++) {
        int32_t pid = atomic_load(&page->slots[index].pid);
        if (pid == 0) continue;
        int more = look_at_process(pid, looks + count, THREADS_MAX - count);
        if (more < 0) return -1;
        count += more;
    }
    for (int index = 0; index < own_count; index++) {
        char name[64];
        snprintf(name, sizeof name, "/proc/self/task/%d", own[index]);
        if (count == THREADS_MAX || !look_at(AT_FDCWD, name, looks + count)) return -1;
        looks[count++].thread = own[index];
    }
    return count;
}

/// Threads of the kernel that deliver loopback's packets when the sender's CPU has too many of them. No thread of a program runs then,
/// although a message is on its way. A process may not see them, as in a container.
static int delivers_packets(void) {
    static pid_t threads[THREADS_MAX];
    static _Atomic int count = -1;
    static _Atomic int has_begun;
    if (atomic_load(&count) < 0 && !atomic_exchange(&has_begun, 1)) {
        int found = 0;
        DIR *folder = opendir("/proc");
        struct dirent *entry;
        while (folder && found < THREADS_MAX && (entry = readdir(folder))) {
            char name[64], command[64];
            if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
            snprintf(name, sizeof name, "/proc/%.20s/comm", entry->d_name);
            if (read_file(AT_FDCWD, name, command, sizeof command) > 0 && strncmp(command, "ksoftirqd/", 10) == 0)
                threads[found++] = atoi(entry->d_name);
        }
        if (folder) closedir(folder);
        atomic_store(&count, found);
    }
    for (int index = 0; index < atomic_load(&count); index++) {
        char name[32];
        snprintf(name, sizeof name, "/proc/%d/stat", threads[index]);
        char state = state_of(AT_FDCWD, name);
        if (state == 'R') return 1;
    }
    return 0;
}

int clock_page_is_quiet(struct clock_page *page, const pid_t *own, int own_count) {
    struct look *looks = malloc(2 * THREADS_MAX * sizeof *looks);
    int first = look_at_all(page, own, own_count, looks);
    int is_quiet = first >= 0 && !delivers_packets();
    if (is_quiet) {
        int second = look_at_all(page, own, own_count, looks + THREADS_MAX);
        is_quiet = first == second;
        for (int index = 0; is_quiet && index < first; index++)
            is_quiet = looks[index].thread == looks[THREADS_MAX + index].thread
                && looks[index].turns == looks[THREADS_MAX + index].turns;
    }
    free(looks);
    return is_quiet;
}

void clock_page_describe(struct clock_page *page, char *text, int size) {
    int used = 0;
    text[0] = 0;
    for (int index = 0; index < CLOCK_SLOTS_MAX; index++) {
        int32_t pid = atomic_load(&page->slots[index].pid);
        char name[64];
        snprintf(name, sizeof name, "/proc/%d/task", pid);
        DIR *folder = pid ? opendir(name) : NULL;
        struct dirent *entry;
        while (folder && (entry = readdir(folder))) {
            if (entry->d_name[0] == '.') continue;
            char command[64], wait[64];
            snprintf(name, sizeof name, "%.20s/stat", entry->d_name);
            char state = state_of(dirfd(folder), name);
            snprintf(name, sizeof name, "%.20s/comm", entry->d_name);
            if (read_file(dirfd(folder), name, command, sizeof command) < 0) continue;
            command[strcspn(command, "\n")] = 0;
            snprintf(name, sizeof name, "%.20s/wchan", entry->d_name);
            if (read_file(dirfd(folder), name, wait, sizeof wait) < 0) wait[0] = 0;
            if (used < size)
                used += snprintf(
                    text + used, size - used, "%d/%s %s %c %s\n", pid, entry->d_name, command, state ? state : '-', wait);
        }
        if (folder) closedir(folder);
    }
}

pid_t clock_page_thread(void) { return (pid_t)syscall(SYS_gettid); }

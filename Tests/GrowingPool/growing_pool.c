/* A pool of threads for Swift's global executor that grows.
 *
 * Swift's own pool has as many threads as the machine has CPUs. A test that blocks or computes on one of them keeps others from running,
 * and two such tests stop the whole program. Here a job that finds no idle thread gets a new one, so a test may block wherever it runs.
 *
 * The hooks of the Swift runtime (swift/Runtime/Concurrency.h) receive every job of the global executor, and with the two later ones every
 * sleep of a task. */
#include "growing_pool.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SWIFT_CC __attribute__((swiftcall))

typedef struct Job Job;
typedef SWIFT_CC void (*enqueue_original)(Job *);
typedef SWIFT_CC void (*delay_original)(unsigned long long, Job *);
typedef SWIFT_CC void (*deadline_original)(long long, long long, long long, long long, int, Job *);

extern SWIFT_CC void (*swift_task_enqueueGlobal_hook)(Job *, enqueue_original);
extern SWIFT_CC void (*swift_task_enqueueGlobalWithDelay_hook)(unsigned long long, Job *, delay_original);
extern SWIFT_CC void (*swift_task_enqueueGlobalWithDeadline_hook)(
    long long, long long, long long, long long, int, Job *, deadline_original);

/* An executor is two words, of which the global one has none set. */
extern SWIFT_CC void swift_job_run(Job *, void *, void *);

enum { stack_bytes = 1 << 20, threads_max = 4096 };

struct item {
    Job *job;
    struct item *next;
};

/* A sleeping job. `at` is CLOCK_MONOTONIC in nanoseconds. */
struct sleeper {
    Job *job;
    long long at;
    struct sleeper *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* As many as items wait. Not a condition variable: with more than two waiters pthread_cond_signal of glibc before 2.41 may wait for ever
 * for a waiter whose signal another one took (bug 25847). */
static sem_t items;
static struct item *first_item, **last_item = &first_item;
static int idle_threads, waiting_items;
static atomic_int started_threads;

static pthread_mutex_t sleepers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleepers_changed;
/* The earliest first. */
static struct sleeper *first_sleeper;

int lanyard_pool_threads(void) { return atomic_load(&started_threads); }

static void fail(const char *what, int code) {
    fprintf(stderr, "the pool of the tests: %s: %s\n", what, strerror(code));
    abort();
}

static void *work(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        idle_threads++;
        pthread_mutex_unlock(&lock);
        while (sem_wait(&items) != 0) {}
        pthread_mutex_lock(&lock);
        idle_threads--;
        struct item *item = first_item;
        first_item = item->next;
        if (first_item == NULL) last_item = &first_item;
        waiting_items--;
        pthread_mutex_unlock(&lock);
        Job *job = item->job;
        free(item);
        swift_job_run(job, NULL, NULL);
    }
    return NULL;
}

/* Returns 0, or the error of pthread_create(3). */
static int start_thread(void *(*body)(void *)) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    int code = pthread_create(&thread, &attributes, body, NULL);
    pthread_attr_destroy(&attributes);
    return code;
}

static void add(Job *job) {
    struct item *item = malloc(sizeof *item);
    if (item == NULL) fail("a job", ENOMEM);
    item->job = job;
    item->next = NULL;
    pthread_mutex_lock(&lock);
    *last_item = item;
    last_item = &item->next;
    waiting_items++;
    int starts = waiting_items > idle_threads && started_threads < threads_max;
    if (starts) started_threads++;
    pthread_mutex_unlock(&lock);
    sem_post(&items);
    if (!starts) return;
    int code = start_thread(work);
    if (code == 0) return;
    /* The threads that exist take the job later. With none the program would wait for ever. */
    pthread_mutex_lock(&lock);
    int left = --started_threads;
    pthread_mutex_unlock(&lock);
    if (left == 0) fail("its first thread", code);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Hands sleeping jobs to the pool when their time has come. */
static void *wake(void *unused) {
    (void)unused;
    pthread_mutex_lock(&sleepers_lock);
    for (;;) {
        if (first_sleeper == NULL) {
            pthread_cond_wait(&sleepers_changed, &sleepers_lock);
            continue;
        }
        struct sleeper *sleeper = first_sleeper;
        if (sleeper->at > now()) {
            struct timespec end = {.tv_sec = sleeper->at / 1000000000, .tv_nsec = sleeper->at % 1000000000};
            pthread_cond_timedwait(&sleepers_changed, &sleepers_lock, &end);
            continue;
        }
        first_sleeper = sleeper->next;
        pthread_mutex_unlock(&sleepers_lock);
        add(sleeper->job);
        free(sleeper);
        pthread_mutex_lock(&sleepers_lock);
    }
    return NULL;
}

static void add_sleeper(Job *job, long long delay) {
    struct sleeper *sleeper = malloc(sizeof *sleeper);
    if (sleeper == NULL) fail("a sleeping job", ENOMEM);
    long long start = now();
    sleeper->job = job;
    sleeper->at = delay > 0 ? (start > (1LL << 62) - delay ? 1LL << 62 : start + delay) : start;
    pthread_mutex_lock(&sleepers_lock);
    struct sleeper **place = &first_sleeper;
    while (*place != NULL && (*place)->at <= sleeper->at) place = &(*place)->next;
    sleeper->next = *place;
    *place = sleeper;
    pthread_cond_signal(&sleepers_changed);
    pthread_mutex_unlock(&sleepers_lock);
}

static SWIFT_CC void enqueue(Job *job, enqueue_original original) {
    (void)original;
    add(job);
}

static SWIFT_CC void enqueue_with_delay(unsigned long long delay, Job *job, delay_original original) {
    (void)original;
    add_sleeper(job, delay > 1ULL << 62 ? 1LL << 62 : (long long)delay);
}

/* The runtime's clock numbers: 1 continuous, 2 suspending, 3 wall. */
static SWIFT_CC void enqueue_with_deadline(
    long long seconds, long long nanoseconds, long long tolerance_seconds, long long tolerance_nanoseconds, int clock, Job *job,
    deadline_original original) {
    (void)tolerance_seconds, (void)tolerance_nanoseconds, (void)original;
    struct timespec time;
    clock_gettime(clock == 1 ? CLOCK_BOOTTIME : clock == 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &time);
    long long left = seconds - time.tv_sec;
    /* What lies further ahead than a century does not come. */
    if (left > 100LL * 365 * 86400) left = 100LL * 365 * 86400;
    add_sleeper(job, left * 1000000000LL + nanoseconds - time.tv_nsec);
}

__attribute__((constructor)) static void begin(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&sleepers_changed, &attributes);
    pthread_condattr_destroy(&attributes);
    sem_init(&items, 0, 0);
    int code = start_thread(wake);
    if (code != 0) fail("the thread that wakes sleeping jobs", code);
    swift_task_enqueueGlobal_hook = enqueue;
    swift_task_enqueueGlobalWithDelay_hook = enqueue_with_delay;
    swift_task_enqueueGlobalWithDeadline_hook = enqueue_with_deadline;
}

#include <stdlib.h>
#include <string.h>

#include "internal.h"

lanyard_h2_workspace *lanyard_h2_new_workspace(void) { return calloc(1, sizeof(lanyard_h2_workspace)); }

void lanyard_h2_free_workspace(lanyard_h2_workspace *workspace) {
    if (!workspace) return;
    if (workspace->text) explicit_bzero(workspace->text, workspace->text_capacity);
    if (workspace->cookie) explicit_bzero(workspace->cookie, workspace->cookie_capacity);
    free(workspace->events);
    free(workspace->text);
    free(workspace->cookie);
    free(workspace);
}

/* Room for `amount` more bytes. 0: there is no memory. */
int lanyard_h2_reserve(uint8_t **bytes, size_t count, size_t *capacity, size_t amount) {
    if (*capacity - count >= amount) return 1;
    size_t larger = *capacity ? *capacity : 4 << 10;
    while (larger - count < amount) larger *= 2;
    uint8_t *block = malloc(larger);
    if (!block) return 0;
    if (*bytes) {
        memcpy(block, *bytes, count);
        explicit_bzero(*bytes, count);
        free(*bytes);
    }
    *bytes = block;
    *capacity = larger;
    return 1;
}

int lanyard_h2_write(lanyard_h2_workspace *work, const void *bytes, size_t count) {
    if (!lanyard_h2_reserve(&work->text, work->text_count, &work->text_capacity, count)) return 0;
    memcpy(work->text + work->text_count, bytes, count);
    work->text_count += count;
    return 1;
}

/* The place of a head in the list of events stands for the owner until there is one. */
int lanyard_h2_is_place(const void *owner) { return (uintptr_t)owner & 1; }
void *lanyard_h2_of_place(size_t place) { return (void *)((uintptr_t)place << 1 | 1); }

lanyard_h2_event *lanyard_h2_add_event(lanyard_h2 *session, lanyard_h2_kind kind, int32_t stream) {
    lanyard_h2_workspace *work = session->work;
    if (work->event_count == work->event_capacity) {
        size_t larger = work->event_capacity ? work->event_capacity * 2 : 64;
        lanyard_h2_event *block = realloc(work->events, larger * sizeof *block);
        if (!block) return NULL;
        work->events = block;
        work->event_capacity = larger;
    }
    lanyard_h2_event *event = &work->events[work->event_count++];
    memset(event, 0, sizeof *event);
    event->kind = kind;
    event->stream = stream;
    event->head = LANYARD_H2_NO_HEAD;
    if (stream <= 0) return event;
    void *owner = nghttp2_session_get_stream_user_data(session->session, stream);
    if (lanyard_h2_is_place(owner))
        event->head = (uintptr_t)owner >> 1;
    else
        event->owner = owner;
    return event;
}

lanyard_h2_event *lanyard_h2_events(lanyard_h2_workspace *workspace, size_t *count) {
    *count = workspace->event_count;
    return workspace->events;
}

void lanyard_h2_clear(lanyard_h2_workspace *workspace) {
    workspace->event_count = workspace->text_count = workspace->cookie_count = 0;
    if (workspace->text_capacity <= TEXT_KEPT_MAX) return;
    explicit_bzero(workspace->text, workspace->text_capacity);
    free(workspace->text);
    workspace->text = NULL;
    workspace->text_capacity = 0;
}

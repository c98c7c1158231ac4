/* Frames of the user's stack: where calls are made and from where those are called. A frame is known by the
 * address of its file name, which is what places carry; frames are kept for good, each once, so that a tail
 * that many calls have in common is there once. */
#include "ir/ir.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct frame {
    const char *function;
    hop_place caller; /* file NULL: nobody */
    uint64_t hash;    /* of all of it */
    char file[];
};

enum { FIRST_ROOM = 256, MOST_FRAMES = 1 << 20, MOST_SHOWN = 16 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct frame **by_content, **by_address; /* open tables of `room` places, at most half of them taken */
static size_t room;
static atomic_size_t n_frames;

static uint64_t address_hash(const void *p) { return hash_bytes(&p, sizeof p, 5); }

static void put_frame(struct frame **table, size_t places, uint64_t hash, struct frame *f)
{
    size_t at = hash % places;
    while (table[at]) at = (at + 1) % places;
    table[at] = f;
}

/* Room for one more; false: there is no memory. What is here is not counted among what a library call
 * allocates. */
static bool frames_room(void)
{
    if (n_frames < room / 2) return true;
    size_t more = room ? 2 * room : FIRST_ROOM;
    struct frame **content = calloc(more, sizeof *content), **address = calloc(more, sizeof *address);
    if (!content || !address) {
        free(content);
        free(address);
        return false;
    }
    for (size_t i = 0; i < room; i++)
        if (by_content[i]) {
            put_frame(content, more, by_content[i]->hash, by_content[i]);
            put_frame(address, more, address_hash(by_content[i]->file), by_content[i]);
        }
    free(by_content);
    free(by_address);
    by_content = content;
    by_address = address;
    room = more;
    return true;
}

static struct frame *frame_new(const char *file, const char *function, hop_place caller, uint64_t hash)
{
    size_t n = strlen(file) + 1, m = strlen(function) + 1;
    struct frame *f = n_frames < MOST_FRAMES && frames_room() ? malloc(sizeof *f + n + m) : NULL;
    if (!f) return NULL;
    memcpy(f->file, file, n);
    memcpy(f->file + n, function, m);
    f->function = f->file + n;
    f->caller = caller;
    f->hash = hash;
    put_frame(by_content, room, hash, f);
    put_frame(by_address, room, address_hash(f->file), f);
    n_frames++;
    return f;
}

static const struct frame *frame_of(const char *file)
{
    const struct frame *found = NULL;
    if (!file || !atomic_load_explicit(&n_frames, memory_order_relaxed)) return NULL;
    pthread_mutex_lock(&lock);
    for (size_t at = address_hash(file) % room; by_address[at] && !found; at = (at + 1) % room)
        if (by_address[at]->file == file) found = by_address[at];
    pthread_mutex_unlock(&lock);
    return found;
}

bool frame_known(const char *file) { return frame_of(file) != NULL; }

const char *hop_frame(const char *file, const char *function, hop_place caller)
{
    if (!file || !function) return file;
    if (!caller.file) caller.line = 0;
    else if (!frame_known(caller.file)) caller.file = hop_frame(caller.file, "", (hop_place){ NULL, 0 });
    uint64_t hash = hash_bytes(file, strlen(file), 1) ^ hash_bytes(function, strlen(function), 2);
    hash = hash_mix(hash_mix(hash, address_hash(caller.file)), (uint64_t)caller.line);
    struct frame *found = NULL;
    pthread_mutex_lock(&lock);
    for (size_t at = room ? hash % room : 0; room && by_content[at]; at = (at + 1) % room) {
        struct frame *f = by_content[at];
        bool called_alike = f->caller.file == caller.file && f->caller.line == caller.line;
        if (f->hash != hash || !called_alike || strcmp(f->file, file) || strcmp(f->function, function))
            continue;
        found = f;
        break;
    }
    if (!found) found = frame_new(file, function, caller, hash);
    pthread_mutex_unlock(&lock);
    return found ? found->file : file;
}

bool frame_caller(const char *file, const char **function, const char **caller_file, int *caller_line)
{
    const struct frame *f = frame_of(file);
    if (!f) return false;
    *function = f->function;
    *caller_file = f->caller.file;
    *caller_line = f->caller.line;
    return true;
}

void frame_lines(struct text *out, const char *file, uint32_t line)
{
    const struct frame *f = frame_of(file);
    if (!f || !f->caller.file) return; /* the place itself says it all */
    for (int shown = 0; f && shown < MOST_SHOWN; shown++) {
        text_add(out, "\n  %s:%u", file, line);
        if (*f->function) text_add(out, ", in %s", f->function);
        file = f->caller.file;
        line = (uint32_t)f->caller.line;
        f = frame_of(file);
    }
}

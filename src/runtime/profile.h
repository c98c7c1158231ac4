/* Profiles of runs: where the time goes. The code of a profiled program leaves the number of the mark at
 * which it is; a thread looks at these numbers a few thousand times a second while runs are in progress, and
 * what it saw is a tree of marks with seconds. profile_report.c writes it for people and programs. */
#ifndef HOP_PROFILE_H
#define HOP_PROFILE_H

#include "loop/lp.h"

#include <pthread.h>

struct exe;
struct profile;

/* What is known of the marks of a program; lives as long as its executable and its profiles. */
struct mark {
    uint8_t kind; /* enum lp_mark_kind */
    bool kept;
    uint32_t level, parent;            /* as of lp_mark */
    const char *label, *place, *stack; /* place: "file:line", or "" */
    uint32_t n_lines;
    const char **lines; /* places of all operators in it */
};
struct mark_table {
    struct arena arena;
    int32_t refs;
    uint32_t n, levels; /* levels: of procedures, and one for the program */
    struct mark *marks;
};
struct mark_table *marks_new(const struct lp *p);
void marks_drop(struct mark_table *t); /* accepts NULL */
static inline uint32_t marks_counters(const struct mark_table *t) { return 2 * t->n; }
static inline uint32_t marks_levels(const struct mark_table *t) { return t->levels; }

/* A run of a profiled program, as a profile sees it: part of the run. */
struct profiled_run {
    struct exe *e;
    int32_t *at;
    uint64_t *counters;
    const int64_t *symbols;
    bool succeeded;
    struct profile *profile; /* that it is noted in, NULL: it is not */
    double began;
    struct profiled_run *next;
};
void profile_enter(struct profiled_run *r);
void profile_leave(struct profiled_run *r);
void profile_detach(struct exe *e); /* the executable ends before its profile */

/* A part of the program in the calls around it. Children come after their parents. */
struct context {
    uint32_t mark, parent; /* parent: HOP_NONE for the first, which is the program */
    uint32_t child, sibling;
    uint64_t samples;
    double seconds; /* while it, and nothing inside of it, was seen */
};
struct profile {
    struct mark_table *table;
    struct exe *e; /* NULL: it takes no more runs */
    int32_t refs;
    struct profiled_run *runs; /* in progress */
    struct context *contexts;
    uint32_t n_contexts, room;
    uint64_t n_runs, n_failed, n_samples, n_lost;
    double run_seconds;
    uint64_t *counters;         /* of all runs, as struct hop_rt has them */
    double *bytes, *operations; /* per mark, of all runs */
    double interval;
    bool sampling; /* there is a thread … */
    pthread_t thread;
    bool stop;   /* … which is to end */
    int process; /* whose */
};

/* interval: seconds between two looks, about; 0: the usual. Below 0: nobody looks but profile_sample's
 * callers. Throws HOP_INVALID when the executable was not compiled for it or is being profiled. */
struct profile *profile_start(struct exe *e, double interval);
void profile_stop(struct profile *p);
void profile_free(void *p);
/* What the thread does each time; `seconds` since it did so before. */
void profile_sample(struct profile *p, double seconds);

/* What it has seen so far, in the arena, for readers. */
struct profile *profile_copy(struct arena *a, const struct profile *p);

/* form: "table", "json", "svg" or "folded" (a line for each stack, for other tools); throws HOP_INVALID. */
void profile_text(struct profile *p, const char *form, struct text *out);

#endif

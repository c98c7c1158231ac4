/* hop: higher-order tensor programs. The public header. */
#ifndef HOP_HOP_H
#define HOP_HOP_H

#ifdef __cplusplus
extern "C" {
#endif

#define HOP_VERSION_MAJOR 0
#define HOP_VERSION_MINOR 1
#define HOP_VERSION_PATCH 0
#define HOP_VERSION "0.1.0"

/* What a call that can fail returns. The text that goes with a failure is hop_message(). */
typedef enum hop_status {
    HOP_OK = 0,
    HOP_INVALID,     /* the program or the request is wrong: syntax, types, shapes, arguments */
    HOP_CHECK,       /* a check failed while the program ran */
    HOP_NOMEM,       /* an allocation failed */
    HOP_IO,          /* a file could not be read or written */
    HOP_UNAVAILABLE, /* this build or machine cannot do it (compilation without LLVM) */
    HOP_CANCELLED,   /* another thread asked the run to end */
    HOP_INTERNAL     /* a bug in hop */
} hop_status;

/* The version of the library that is running, "major.minor.patch". */
const char *hop_version(void);

/* What went wrong in the last failed call of this thread: place, operator, expected and found. Never NULL. */
const char *hop_message(void);

#ifdef __cplusplus
}
#endif

#endif

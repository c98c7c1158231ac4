/* Host functions that programs call by name. The registry belongs to the process; a run may bring a taker of
 * its own for all calls instead. */
#ifndef HOP_CALLBACKS_H
#define HOP_CALLBACKS_H

#include "ir/table.h"

/* Takes the calls of one run in place of the registered functions: commands show them. Throws to end the run.
 */
typedef void callback_taker(void *ctx, const char *name, struct tensor *const *args, uint32_t n);

/* One call: by the taker, else by the function registered under the name. `place` is what place_text gives.
 * Throws when there is none, and with the status that the function returned. The tensors need not outlive the
 * call: functions get handles of their own over the same memory. */
void callback_call(callback_taker *taker, void *ctx, const char *place, const char *name,
                   struct tensor *const *args, uint32_t n);

/* "log(1, [2, 3])": how commands show a call. */
void callback_text(struct text *out, const char *name, struct tensor *const *args, uint32_t n);

#endif

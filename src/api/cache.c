/* The public calls about the cache of compiled code. */
#include "api/api.h"
#include "runtime/cache.h"

void hop_cache_statistics(hop_cache_stats *out)
{
    if (out) cache_statistics(out);
}
void hop_cache_clear(void) { cache_clear_memory(); }
void hop_cache_limits(uint64_t memory, uint64_t files) { cache_set_limits(memory, files); }

static void set_directory(void *directory) { cache_set_directory(directory); }
hop_status hop_cache_directory(const char *directory) { return api_edge(set_directory, (void *)directory); }

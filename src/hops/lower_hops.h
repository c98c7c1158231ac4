/* The compile column of the higher-order rows. */
#ifndef HOP_LOWER_HOPS_H
#define HOP_LOWER_HOPS_H

#include "loop/lower.h"

extern const struct op_lower scan_lower, while_lower, switch_lower, invoke_lower, map_lower, fori_lower, associative_lower;

/* What a while_loop that runs past max_trips says, with the limit as the value shown. */
#define WHILE_TRIPS_MESSAGE "the loop ends within max_trips"

#endif

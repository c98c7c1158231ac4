/* Included before every test program: tests compile what they test and leave the user's cache alone, unless
 * HOP_CACHE says otherwise; what each pass makes is verified, unless HOP_DEBUG does. */
#include <stdlib.h>

__attribute__((constructor)) static void isolate(void)
{
    setenv("HOP_CACHE", "off", 0);
    setenv("HOP_DEBUG", "verify", 0);
}

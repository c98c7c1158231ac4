/* The hop command: a table of subcommands. Arguments come in, an exit code goes out: 0 fine, 1 a test or a
 * check in the run failed, 2 bad input. */
#include "cli/cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }

#ifndef BERTH_CEXEC_H
#define BERTH_CEXEC_H

#include <stddef.h>
#include <stdlib.h>

// Bit n-1 is set if signal n was ignored when this process began.
extern unsigned long long berth_ignored;

// Bit n is set if file n, of the first three, was closed then.
extern unsigned berth_closed;

// Set if the daemon was asked for the lease, and gave no answer.
extern int berth_unanswered;

// berth_torch writes the version of PyTorch that a program would import, or "".
void berth_torch(const char *program, char *version, size_t size);

// berth_find looks for a command as a shell would. It returns 0 if there is a
// file that can be run, and writes its path.
int berth_find(const char *name, char *file, size_t size);

#endif

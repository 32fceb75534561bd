// What inherited.go reads, noted before Go's runtime starts.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>

unsigned long long berth_ignored; // bit n-1: signal n was ignored
unsigned berth_closed;            // bit n: file n, of the first three, was closed

__attribute__((constructor)) static void note(void) {
	for (int s = 1; s <= 64; s++) {
		struct sigaction action;
		if (sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			berth_ignored |= 1ULL << (s - 1);
	}
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			berth_closed |= 1u << fd;
}

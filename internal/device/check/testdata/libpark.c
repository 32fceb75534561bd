// A driver library without a device, for tests of what moves the memory of other
// processes. The folder DRIVER has a file for each process that uses the driver,
// named after its pid, with its state as a digit. A file PID.STEP makes a step go
// wrong: it has the code of the answer, or 0 for a call that does not return. If
// there is a pipe PID.told, a step waits for somebody to open it when it is done.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ok = 0, invalid = 1, no_memory = 2, not_initialized = 3, operating_system = 304, illegal_state = 401, not_supported = 801 };
enum { running, locked, checkpointed };

int cuInit(unsigned int flags) { return flags == 0 && getenv("DRIVER") != NULL ? ok : invalid; }

int cuGetErrorString(int error, const char **text) {
	*text = error == no_memory ? "out of memory" : error == illegal_state ? "the operation cannot be performed in the present state" : error == not_supported ? "operation not supported" : error == operating_system ? "OS call failed or operation not supported on this OS" : "invalid argument";
	return ok;
}

#ifndef OLD
static FILE *file(int pid, const char *step, const char *mode) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%d%s%s", getenv("DRIVER"), pid, *step ? "." : "", step);
	return fopen(path, mode);
}

static int number(FILE *f) {
	int n = -1;
	if (fscanf(f, "%d", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

static int step(int pid, const char *name, int from, int to) {
	FILE *f = file(pid, name, "r");
	if (f != NULL) {
		int code = number(f);
		while (code == 0)
			pause();
		return code;
	}
	if (kill(pid, 0) != 0)
		return operating_system;
	f = file(pid, "", "r");
	if (f == NULL)
		return not_initialized;
	if (number(f) != from)
		return illegal_state;
	f = file(pid, "", "w");
	fprintf(f, "%d", to);
	fclose(f);
	f = file(pid, "told", "r+"); // this does not make the file, and does not wait
	if (f != NULL) {
		fclose(f);
		fclose(file(pid, "told", "w"));
	}
	return ok;
}

int cuCheckpointProcessGetState(int pid, int *state) {
	FILE *f = file(pid, "state", "r");
	if (f != NULL) {
		int code = number(f);
		while (code == 0)
			pause();
		return code;
	}
	if (kill(pid, 0) != 0)
		return operating_system;
	f = file(pid, "", "r");
	if (f == NULL)
		return not_initialized;
	*state = number(f);
	return ok;
}

int cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
	FILE *f = file(pid, "thread", "r");
	*thread = f != NULL ? number(f) : pid;
	return ok;
}

int cuCheckpointProcessLock(int pid, void *options) {
	unsigned int *words = options;
	for (int i = 1; i < 16; i++)
		if (words[i] != 0)
			return invalid;
	return words[0] > 0 ? step(pid, "lock", running, locked) : invalid;
}

int cuCheckpointProcessCheckpoint(int pid, void *options) { return options == NULL ? step(pid, "checkpoint", locked, checkpointed) : invalid; }
int cuCheckpointProcessRestore(int pid, void *options) { return options == NULL ? step(pid, "restore", checkpointed, locked) : invalid; }
int cuCheckpointProcessUnlock(int pid, void *options) { return options == NULL ? step(pid, "unlock", locked, running) : invalid; }
#endif

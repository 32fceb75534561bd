#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// missing is what a call returns if no library is loaded: the driver's code for
// "no such symbol".
enum { missing = 500 };

// CALL defines a pointer to a function of the driver, and the function that calls
// it.
#define CALL(name, parameters, arguments) \
	static int (*at_##name) parameters; \
	int berth_##name parameters { return at_##name ? at_##name arguments : missing; }

CALL(cuInit, (unsigned int flags), (flags))
CALL(cuDeviceGet, (int *device, int ordinal), (device, ordinal))
CALL(cuDeviceGetAttribute, (int *value, int attribute, int device), (value, attribute, device))
CALL(cuCtxCreate, (void **context, unsigned int flags, int device), (context, flags, device))
CALL(cuCtxSynchronize, (void), ())
CALL(cuMemGetInfo, (size_t *free, size_t *total), (free, total))
CALL(cuMemAlloc, (uint64_t *address, size_t bytes), (address, bytes))
CALL(cuMemFree, (uint64_t address), (address))
CALL(cuMemHostAlloc, (void **memory, size_t bytes, unsigned int flags), (memory, bytes, flags))
CALL(cuMemcpyHtoD, (uint64_t to, const void *from, size_t bytes), (to, from, bytes))
CALL(cuMemcpyDtoH, (void *to, uint64_t from, size_t bytes), (to, from, bytes))
CALL(cuModuleGetFunction, (void **function, void *module, const char *name), (function, module, name))
CALL(cuGetErrorString, (int error, const char **text), (error, text))
CALL(cuCheckpointProcessGetState, (int pid, int *state), (pid, state))
CALL(cuCheckpointProcessGetRestoreThreadId, (int pid, int *thread), (pid, thread))
CALL(cuCheckpointProcessCheckpoint, (int pid, void *options), (pid, options))
CALL(cuCheckpointProcessRestore, (int pid, void *options), (pid, options))
CALL(cuCheckpointProcessUnlock, (int pid, void *options), (pid, options))

static int (*at_cuCheckpointProcessLock)(int pid, void *options);
static int (*at_cuModuleLoadDataEx)(void **module, const void *image, unsigned int count, int *options, void **values);
static int (*at_cuLaunchKernel)(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared, void *stream, void **parameters, void **extra);

// function is a function of the driver, and where the pointer to it is kept.
struct function {
	const char *name;
	void *pointer;
};

// Every use of the driver needs these.
static const struct function common[] = {
	{"cuInit", &at_cuInit},
	{"cuGetErrorString", &at_cuGetErrorString},
};

// The driver has two forms of some functions; the second takes memory of more
// than 4 GiB.
static const struct function device[] = {
	{"cuDeviceGet", &at_cuDeviceGet},
	{"cuDeviceGetAttribute", &at_cuDeviceGetAttribute},
	{"cuCtxCreate_v2", &at_cuCtxCreate},
	{"cuCtxSynchronize", &at_cuCtxSynchronize},
	{"cuMemGetInfo_v2", &at_cuMemGetInfo},
	{"cuMemAlloc_v2", &at_cuMemAlloc},
	{"cuMemFree_v2", &at_cuMemFree},
	{"cuMemHostAlloc", &at_cuMemHostAlloc},
	{"cuMemcpyHtoD_v2", &at_cuMemcpyHtoD},
	{"cuMemcpyDtoH_v2", &at_cuMemcpyDtoH},
	{"cuModuleGetFunction", &at_cuModuleGetFunction},
	{"cuModuleLoadDataEx", &at_cuModuleLoadDataEx},
	{"cuLaunchKernel", &at_cuLaunchKernel},
};

// Drivers before 570 do not have these.
static const struct function checkpoint[] = {
	{"cuCheckpointProcessGetState", &at_cuCheckpointProcessGetState},
	{"cuCheckpointProcessGetRestoreThreadId", &at_cuCheckpointProcessGetRestoreThreadId},
	{"cuCheckpointProcessLock", &at_cuCheckpointProcessLock},
	{"cuCheckpointProcessCheckpoint", &at_cuCheckpointProcessCheckpoint},
	{"cuCheckpointProcessRestore", &at_cuCheckpointProcessRestore},
	{"cuCheckpointProcessUnlock", &at_cuCheckpointProcessUnlock},
};

const char *const berth_cuda_old = "the driver is too old";

static char message[512]; // what berth_cuda_load returns

// find finds functions in a library. It returns the name of the first one that the
// library does not have, or NULL.
static const char *find(void *handle, const struct function *list, size_t count) {
	for (size_t i = 0; i < count; i++) {
		void *found = dlsym(handle, list[i].name);
		if (found == NULL)
			return list[i].name;
		memcpy(list[i].pointer, &found, sizeof found);
	}
	return NULL;
}

#define FIND(handle, list) find(handle, list, sizeof list / sizeof list[0])

const char *berth_cuda_load(const char *library, int what) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL) {
		const char *why = dlerror();
		snprintf(message, sizeof message, "%s", why != NULL ? why : library);
		return message;
	}
	const char *absent = FIND(handle, common);
	if (absent == NULL && what == berth_cuda_device)
		absent = FIND(handle, device);
	if (absent != NULL) {
		snprintf(message, sizeof message, "%s has no function %s", library, absent);
		return message;
	}
	if (what == berth_cuda_checkpoint && FIND(handle, checkpoint) != NULL)
		return berth_cuda_old;
	return NULL;
}

int berth_cuda_module(void **module, const char *ptx, char *log, size_t size) {
	enum { error_log = 5, error_log_size = 6 };
	int options[] = {error_log, error_log_size};
	void *values[] = {log, (void *)(uintptr_t)size};
	if (at_cuModuleLoadDataEx == NULL)
		return missing;
	return at_cuModuleLoadDataEx(module, ptx, 2, options, values);
}

int berth_cuda_lock(int pid, unsigned int milliseconds) {
	struct {
		unsigned int timeout, reserved;
		uint64_t more[7];
	} options = {.timeout = milliseconds};
	return at_cuCheckpointProcessLock ? at_cuCheckpointProcessLock(pid, &options) : missing;
}

int berth_cuda_launch(void *function, unsigned int blocks, unsigned int threads, uint64_t *arguments, int count) {
	void *parameters[16];
	if (at_cuLaunchKernel == NULL || count > (int)(sizeof parameters / sizeof parameters[0]))
		return missing;
	for (int i = 0; i < count; i++)
		parameters[i] = &arguments[i];
	return at_cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL);
}

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

static int (*at_cuModuleLoadDataEx)(void **module, const void *image, unsigned int count, int *options, void **values);
static int (*at_cuLaunchKernel)(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared, void *stream, void **parameters, void **extra);

// The driver has two forms of some functions; the second takes memory of more
// than 4 GiB.
static const struct {
	const char *name;
	void *pointer;
} functions[] = {
	{"cuInit", &at_cuInit},
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
	{"cuGetErrorString", &at_cuGetErrorString},
};

const char *berth_cuda_load(const char *library) {
	static char message[512];
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL) {
		const char *why = dlerror();
		snprintf(message, sizeof message, "%s", why != NULL ? why : library);
		return message;
	}
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *found = dlsym(handle, functions[i].name);
		if (found == NULL) {
			snprintf(message, sizeof message, "%s has no function %s", library, functions[i].name);
			return message;
		}
		memcpy(functions[i].pointer, &found, sizeof found);
	}
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

int berth_cuda_launch(void *function, unsigned int blocks, unsigned int threads, uint64_t *arguments, int count) {
	void *parameters[16];
	if (at_cuLaunchKernel == NULL || count > (int)(sizeof parameters / sizeof parameters[0]))
		return missing;
	for (int i = 0; i < count; i++)
		parameters[i] = &arguments[i];
	return at_cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL);
}

// A driver library without a device, for tests: its memory is that of the process,
// and its programs are C. It refuses text that is not PTX of the version that the
// first header asks for.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ok = 0, invalid = 1, full = 2, bad_ptx = 218, no_symbol = 500 };

static size_t left = (size_t)562 << 20; // bytes that are free

int cuInit(unsigned int flags) { return flags == 0 ? ok : invalid; }
int cuDeviceGet(int *device, int ordinal) { return *device = 7, ordinal == 0 ? ok : invalid; }
int cuCtxCreate_v2(void **context, unsigned int flags, int device) { return *context = &left, device == 7 && flags == 4 ? ok : invalid; }
int cuCtxSynchronize(void) { return ok; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = left, *total = (size_t)1 << 30, ok; }
int cuMemFree_v2(uint64_t at) { return free((void *)at), ok; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { return memcpy((void *)to, from, bytes), ok; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { return memcpy(to, (void *)from, bytes), ok; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
	*value = 1;
	return attribute == 16 && device == 7 ? ok : invalid;
}

int cuMemAlloc_v2(uint64_t *at, size_t bytes) {
	if (bytes > left)
		return full;
	left -= bytes;
	*at = (uint64_t)calloc(bytes, 1);
	return *at != 0 ? ok : full;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
	*memory = malloc(bytes);
	return *memory != NULL && flags == 0 ? ok : full;
}

int cuGetErrorString(int error, const char **text) {
	*text = error == full ? "out of memory" : error == bad_ptx ? "a PTX JIT compilation failed" : "invalid argument";
	return ok;
}

int cuModuleLoadDataEx(void **module, const char *text, unsigned int count, int *options, void **values) {
	*module = &left;
	if (count == 2 && options[0] == 5 && options[1] == 6 && strncmp(text, ".version 6.0\n.target sm_50\n", 27) == 0)
		return ok;
	snprintf(values[0], (size_t)values[1], "it begins with %.20s", text);
	return bad_ptx;
}

static uint32_t word(uint64_t index, uint64_t factor, uint64_t mask) {
	return ((uint32_t)index + (uint32_t)(index >> 32)) * (uint32_t)factor ^ (uint32_t)mask;
}

static void fill(uint64_t **a, uint64_t threads) {
	(void)threads;
	for (uint64_t i = 0; i < *a[1]; i++)
		((uint32_t *)*a[0])[i] = word(*a[2] + i, *a[3], *a[4]);
}

static void check(uint64_t **a, uint64_t threads) {
	(void)threads;
	uint64_t *report = (uint64_t *)*a[5];
	for (uint64_t i = 0; i < *a[1]; i++) {
		uint32_t found = ((uint32_t *)*a[0])[i], want = word(*a[2] + i, *a[3], *a[4]);
		if (found != want && report[0]++ == 0) {
			report[1] = *a[2] + i;
			report[2] = want | (uint64_t)found << 32;
		}
	}
}

static void chain(uint64_t **a, uint64_t threads) {
	uint32_t *out = (uint32_t *)*a[0];
	for (uint64_t t = 0; t < threads; t++) {
		if (t >= 256) { // as in the first block
			out[t] = out[t % 256];
			continue;
		}
		uint32_t state = (uint32_t)t * 0x9E3779B1u + (uint32_t)*a[2], bits;
		float x = 0;
		double y = 0;
		for (uint64_t i = 0; i < *a[1]; i++) {
			state = state * 0x0019660Du + 0x3C6EF35Fu;
			state ^= state >> 13;
			float h = (float)(state >> 8) * 0x1p-24f;
			x = fmaf(x, 0.75f, h);
			y = fma(y, 0.75, h);
			memcpy(&bits, &x, sizeof bits);
			state ^= bits;
		}
		uint64_t wide;
		memcpy(&wide, &y, sizeof wide);
		out[t] = state ^ (uint32_t)wide ^ (uint32_t)(wide >> 32);
	}
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
	*function = strcmp(name, "berth_fill") == 0 ? fill : strcmp(name, "berth_check") == 0 ? check : strcmp(name, "berth_chain") == 0 ? chain : NULL;
	return *function != NULL && module == &left ? ok : no_symbol;
}

int cuLaunchKernel(void (*function)(uint64_t **, uint64_t), unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
                   unsigned int shared, void *stream, uint64_t **parameters, void **extra) {
	if (gy != 1 || gz != 1 || by != 1 || bz != 1 || bx != 256 || gx != 8 || shared != 0 || stream != NULL || extra != NULL)
		return invalid;
	function(parameters, (uint64_t)gx * bx);
	return ok;
}

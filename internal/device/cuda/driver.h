// What berth calls of NVIDIA's driver library. The library is loaded while the
// program runs, so that berth starts on machines that have none.
#ifndef BERTH_CUDA_DRIVER_H
#define BERTH_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

// What the driver is needed for: to compute on a device, or to move the memory of
// other processes.
enum { berth_cuda_device, berth_cuda_checkpoint };

// berth_cuda_load loads a library and finds every function in it that is needed.
// It returns NULL, or a message that says what is missing, which is valid until the
// next call. It returns berth_cuda_old for a driver that cannot move the memory of
// other processes.
const char *berth_cuda_load(const char *library, int what);
extern const char *const berth_cuda_old;

// These have the names, the arguments and the results of the driver's functions.
// Handles are pointers, devices are int, and device memory is uint64_t.
int berth_cuInit(unsigned int flags);
int berth_cuDeviceGet(int *device, int ordinal);
int berth_cuDeviceGetAttribute(int *value, int attribute, int device);
int berth_cuCtxCreate(void **context, unsigned int flags, int device);
int berth_cuCtxSynchronize(void);
int berth_cuMemGetInfo(size_t *free, size_t *total);
int berth_cuMemAlloc(uint64_t *address, size_t bytes);
int berth_cuMemFree(uint64_t address);
int berth_cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags);
int berth_cuMemcpyHtoD(uint64_t to, const void *from, size_t bytes);
int berth_cuMemcpyDtoH(void *to, uint64_t from, size_t bytes);
int berth_cuModuleGetFunction(void **function, void *module, const char *name);
int berth_cuGetErrorString(int error, const char **text);
int berth_cuCheckpointProcessGetState(int pid, int *state);
int berth_cuCheckpointProcessGetRestoreThreadId(int pid, int *thread);
int berth_cuCheckpointProcessCheckpoint(int pid, void *options);
int berth_cuCheckpointProcessRestore(int pid, void *options);
int berth_cuCheckpointProcessUnlock(int pid, void *options);

// berth_cuda_module compiles PTX. If that fails, the compiler writes why to log.
int berth_cuda_module(void **module, const char *ptx, char *log, size_t size);

// berth_cuda_lock locks a process, unless it is still in a call to the driver after
// so many milliseconds.
int berth_cuda_lock(int pid, unsigned int milliseconds);

// berth_cuda_launch starts a function whose arguments are all 64 bits wide.
int berth_cuda_launch(void *function, unsigned int blocks, unsigned int threads, uint64_t *arguments, int count);

#endif

#ifndef BERTH_CUDA_IMPORTS_H
#define BERTH_CUDA_IMPORTS_H

#include <stdint.h>

// berth_cuda_imports says how many bytes of GPU memory a process has opened that
// belong to other processes, on all GPUs. It returns 0, or -1 if the kernel driver
// does not say. It may be called from several threads.
int berth_cuda_imports(int pid, uint64_t *bytes);

#endif

package cuda

// #include "imports.h"
import "C"

import "github.com/berth-gpu/berth/gpu"

// Imported returns how much GPU memory of other processes a process has opened (CUDA
// IPC). It is absent if the kernel driver does not say. It does not count memory whose
// owner has ended.
func Imported(pid int) gpu.Opt[gpu.MiB] {
	var bytes C.uint64_t
	if C.berth_cuda_imports(C.int(pid), &bytes) != 0 {
		return gpu.Opt[gpu.MiB]{}
	}
	return gpu.Some(gpu.MiB((bytes + 1<<20 - 1) >> 20))
}

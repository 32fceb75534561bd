package job

import (
	"slices"
	"strings"
)

// ranOut lists what the libraries of GPUs write when the memory of a device has run out.
var ranOut = []string{
	"CUDA out of memory", "HIP out of memory", "OutOfMemoryError", "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", // CUDA, ROCm, PyTorch, CuPy
	"CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
	"RESOURCE_EXHAUSTED", "OOM when allocating tensor", // XLA, which JAX and TensorFlow use
}

// SaysOutOfMemory reports whether a line of a log says that the memory of a device has run
// out.
func SaysOutOfMemory(line string) bool {
	return slices.ContainsFunc(ranOut, func(words string) bool { return strings.Contains(line, words) })
}

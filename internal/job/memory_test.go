package job

import "testing"

func TestSaysOutOfMemory(t *testing.T) {
	for line, want := range map[string]bool{
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.":                                           true,
		"torch.cuda.OutOfMemoryError: HIP out of memory.":                                                                    true,
		"RuntimeError: CUDA error: out of memory":                                                                            true,
		"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,024 bytes":                                            true,
		"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.": true,
		"CUDA_ERROR_OUT_OF_MEMORY: out of memory":                                                                            true,
		"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)":                             true,
		"MemoryError": false, "killed: out of memory": false, "": false, "done": false,
	} {
		if got := SaysOutOfMemory(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

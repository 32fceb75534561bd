package pipeline

import "github.com/berth-gpu/berth/api"

// Cost is the cost of a conversion between two memory types.
type Cost string

// The costs, from least to most.
const (
	NoCost   Cost = "none" // the same type: the array is handed on
	ZeroCopy Cost = api.CostZeroCopy
	HostCopy Cost = api.CostHostCopy
)

// ConversionCost returns the cost of a conversion on one device: a plan keeps all GPU
// steps of a pipeline on the same one. CuPy, PyTorch, TensorFlow and JAX speak DLPack with
// each other. pyclesperanto keeps its arrays in OpenCL or CUDA buffers of its own and does
// not, so everything that enters or leaves it goes through host memory, as does
// everything from and to NumPy.
func ConversionCost(from, to MemoryType) Cost {
	speaks := func(m MemoryType) bool { return m == Cupy || m == Torch || m == Tensorflow || m == JAX }
	switch {
	case from == to:
		return NoCost
	case speaks(from) && speaks(to):
		return ZeroCopy
	}
	return HostCopy
}

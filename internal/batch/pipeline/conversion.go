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

// conversionCosts holds the cost for every pair on one device: a plan keeps all GPU steps
// of a pipeline on the same one. CuPy, PyTorch, TensorFlow and JAX speak DLPack with each
// other. pyclesperanto keeps its arrays in OpenCL or CUDA buffers of its own and does
// not, so everything that enters or leaves it goes through host memory, as does
// everything from and to NumPy.
var conversionCosts = map[MemoryType]map[MemoryType]Cost{
	Numpy: {
		Numpy: NoCost, Cupy: HostCopy, Torch: HostCopy,
		Tensorflow: HostCopy, JAX: HostCopy, Pyclesperanto: HostCopy,
	},
	Cupy: {
		Numpy: HostCopy, Cupy: NoCost, Torch: ZeroCopy,
		Tensorflow: ZeroCopy, JAX: ZeroCopy, Pyclesperanto: HostCopy,
	},
	Torch: {
		Numpy: HostCopy, Cupy: ZeroCopy, Torch: NoCost,
		Tensorflow: ZeroCopy, JAX: ZeroCopy, Pyclesperanto: HostCopy,
	},
	Tensorflow: {
		Numpy: HostCopy, Cupy: ZeroCopy, Torch: ZeroCopy,
		Tensorflow: NoCost, JAX: ZeroCopy, Pyclesperanto: HostCopy,
	},
	JAX: {
		Numpy: HostCopy, Cupy: ZeroCopy, Torch: ZeroCopy,
		Tensorflow: ZeroCopy, JAX: NoCost, Pyclesperanto: HostCopy,
	},
	Pyclesperanto: {
		Numpy: HostCopy, Cupy: HostCopy, Torch: HostCopy,
		Tensorflow: HostCopy, JAX: HostCopy, Pyclesperanto: NoCost,
	},
}

// ConversionCost returns the cost of a conversion on one device.
func ConversionCost(from, to MemoryType) Cost { return conversionCosts[from][to] }

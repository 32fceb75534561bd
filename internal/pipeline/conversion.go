package pipeline

import "strings"

// Cost is what it costs to turn one memory type into another.
type Cost string

// The costs, from least to most.
const (
	NoCost   Cost = "none"      // the same type: the array is handed on
	ZeroCopy Cost = "zero_copy" // DLPack on the same device: a new name for the same memory
	HostCopy Cost = "host_copy" // the data crosses between device and host memory
)

// Conversion turns the output of an earlier step into the input of a later
// one, just before that runs.
type Conversion struct {
	Step string     `json:"step" doc:"The step whose output is converted."`
	From MemoryType `json:"from"`
	To   MemoryType `json:"to"`
	Cost Cost       `json:"cost" enum:"zero_copy,host_copy"`
}

// conversionCosts says for every pair what it costs, on one device: a plan
// keeps all GPU steps of a pipeline on the same one. CuPy, PyTorch, TensorFlow
// and JAX speak DLPack with each other. pyclesperanto keeps its arrays in
// OpenCL or CUDA buffers of its own and does not, so everything that enters or
// leaves it goes through host memory, as does everything from and to NumPy.
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

// ConversionCost is what it costs to turn from into to on one device.
func ConversionCost(from, to MemoryType) Cost { return conversionCosts[from][to] }

// words is the cost for people.
func (c Cost) words() string { return strings.ReplaceAll(string(c), "_", " ") }

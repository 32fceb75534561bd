package pipeline

import "github.com/berth-gpu/berth/api"

// MemoryType is the kind of array that a step takes or gives. Each is named after the
// Python library that makes it.
type MemoryType string

// The memory types. Numpy is in host memory, all others are on a GPU.
const (
	Numpy         MemoryType = "numpy"
	Cupy          MemoryType = "cupy"
	Torch         MemoryType = "torch"
	Tensorflow    MemoryType = "tensorflow"
	JAX           MemoryType = "jax"
	Pyclesperanto MemoryType = "pyclesperanto"
)

// MemoryTypes lists the memory types, the one of the CPU first.
func MemoryTypes() []MemoryType {
	return []MemoryType{Numpy, Cupy, Torch, Tensorflow, JAX, Pyclesperanto}
}

// OnGPU reports whether an array of this type is in GPU memory. It returns false for an
// unknown type.
func (m MemoryType) OnGPU() bool { return m != Numpy && m != "" }

// Library returns the Python package that the memory type needs.
func (m MemoryType) Library() string { return string(m) }

// nicknames maps words that people use for a memory type and that are too far from its
// name to be recognised by their letters.
var nicknames = map[string]MemoryType{
	"cpu": Numpy, "host": Numpy, "np": Numpy, "ndarray": Numpy,
	"cp": Cupy, "cuda": Cupy, "gpu": Cupy,
	"pytorch": Torch, "tensor": Torch,
	"tf": Tensorflow, "keras": Tensorflow,
	"jnp": JAX, "flax": JAX,
	"cle": Pyclesperanto, "clesperanto": Pyclesperanto, "opencl": Pyclesperanto,
}

func memoryTypeNames() []string {
	var names []string
	for _, m := range MemoryTypes() {
		names = append(names, string(m))
	}
	return names
}

// gpuLibrary reports whether a Python package keeps arrays on a GPU, so that it must see
// the GPU to be of use.
func gpuLibrary(name string) bool {
	for _, m := range MemoryTypes() {
		if m.Library() == name {
			return m.OnGPU()
		}
	}
	return false
}

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

package pipeline

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

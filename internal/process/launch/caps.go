package launch

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// The variables that limit the memory of a program.
const (
	cupyLimit   = "CUPY_GPU_MEMORY_LIMIT"
	xlaOld      = "XLA_PYTHON_CLIENT_MEM_FRACTION"
	xlaNew      = "XLA_CLIENT_MEM_FRACTION"
	xlaGreed    = "XLA_PYTHON_CLIENT_PREALLOCATE"
	torchOld    = "PYTORCH_CUDA_ALLOC_CONF"
	torchNew    = "PYTORCH_ALLOC_CONF"
	torchHIP    = "PYTORCH_HIP_ALLOC_CONF"
	tensorflow  = "TF_FORCE_GPU_ALLOW_GROWTH"
	mpsPipe     = "CUDA_MPS_PIPE_DIRECTORY"
	mpsMemory   = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	mpsThreads  = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	torchOption = "per_process_memory_fraction"
)

// The names of the libraries that the framework rung limits.
const (
	CuPy  = "cupy"
	JAX   = "jax"
	Torch = "torch"
)

// Libraries lists the libraries that the framework rung can limit.
func Libraries() []string { return []string{CuPy, JAX, Torch} }

var titles = map[string]string{CuPy: "CuPy", JAX: "JAX", Torch: "PyTorch"}

// caps lists the libraries that the framework rung limits, in the order of
// Libraries.
func (l *Ladder) caps() []string {
	return slices.DeleteFunc(Libraries(), func(library string) bool {
		return len(l.Caps) > 0 && !slices.Contains(l.Caps, library)
	})
}

// stripCaps removes the limits that a launch sets, and leaves the other options
// of PyTorch.
func (e *editor) stripCaps() {
	for _, name := range []string{cupyLimit, xlaOld, xlaNew, mpsPipe, mpsMemory, mpsThreads} {
		e.unset(name)
	}
	for _, name := range []string{torchOld, torchNew, torchHIP} {
		conf, there := e.get(name)
		if rest := withoutOption(conf, torchOption); rest != "" {
			e.set(name, rest)
		} else if there {
			e.unset(name)
		}
	}
}

// capByMPS makes the driver enforce the limit. It sets no fraction for the libraries:
// under MPS, a client may see its limit as the size of the device, and a fraction of that
// would be far too little.
func (e *editor) capByMPS(memory gpu.MiB, ladder Ladder, r *Receipt) {
	e.set(mpsPipe, ladder.MPS)
	if memory > 0 {
		e.set(mpsMemory, fmt.Sprintf("0=%dM", memory))
		r.hold("every CUDA program: at most %s per process, its context included; the driver refuses more (%s)", memory, mpsMemory)
	}
	if ladder.Compute > 0 {
		e.set(mpsThreads, strconv.Itoa(ladder.Compute))
		r.hold("at most %d %% of the multiprocessors (%s)", ladder.Compute, mpsThreads)
	}
	// Both take most of the device at the start by default.
	e.setDefault(xlaGreed, "false")
	e.setDefault(tensorflow, "true")
	r.miss("the limit is per process: several processes of one program may each take it; the watchdog sees their sum")
	r.miss("MPS has one server for all its clients on a device: a fault of one of them, such as a bad address, ends all of them")
}

// Least returns the smaller of two shares of the multiprocessors, of which 0 means all.
func Least(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// capByFramework makes the libraries enforce the limit.
func (e *editor) capByFramework(devices []gpu.Device, memory gpu.MiB, ladder Ladder, r *Receipt) {
	pool := poolOf(memory, ladder.Context)
	largest := gpu.MiB(0)
	amd := false
	for _, d := range devices {
		largest = max(largest, d.MemoryTotal)
		amd = amd || d.Vendor == gpu.AMD
	}
	share := shareOf(pool, largest)
	caps := ladder.caps()
	for _, library := range Libraries() {
		switch {
		case !slices.Contains(caps, library):
			r.miss("%s: not limited, because the launcher did not ask for it", titles[library])
		case library == CuPy:
			e.capCuPy(pool, largest, r)
		case library == JAX:
			e.capJAX(share, pool, r)
		case library == Torch:
			e.capTorch(share, pool, ladder.Torch, amd, r)
		}
	}
	if len(ladder.Caps) == 0 { // a launcher that names libraries gets the variables of no others
		e.setDefault(tensorflow, "true")
		r.miss("TensorFlow has no variable for it: it is only told to take memory as it needs it; import the berth package, or set memory_limit in the program")
	}
	r.miss("other programs, and memory that a library takes beside its pool, are measured by the watchdog and not refused")
	if ladder.Context >= memory {
		r.miss("the lease is not larger than a CUDA context (%s): what is left for data is a guess", ladder.Context)
	}
}

// poolOf returns the part of the memory of a lease that is left for data. If the lease is
// hardly larger than a context, that is half of it, because libraries read zero as no
// limit.
func poolOf(memory, context gpu.MiB) gpu.MiB {
	return max(memory-min(context, memory/2), 1)
}

// shareOf returns part as a share of total, rounded down to a millionth. It
// returns 0 if the size of the device is not known.
func shareOf(part, total gpu.MiB) float64 {
	if total <= 0 {
		return 0
	}
	return min(math.Floor(1e6*float64(part)/float64(total))/1e6, 1)
}

func formatShare(share float64) string { return strconv.FormatFloat(share, 'f', -1, 64) }

func (e *editor) capCuPy(pool, total gpu.MiB, r *Receipt) {
	r.limited = append(r.limited, titles[CuPy])
	if own, ok := e.get(cupyLimit); ok && cupyBytes(own, total) > 0 && cupyBytes(own, total) <= int64(pool)<<20 {
		r.hold("CuPy: %s=%s was set already, and is less", cupyLimit, own)
		return
	}
	e.set(cupyLimit, strconv.FormatInt(int64(pool)<<20, 10))
	r.hold("CuPy: at most %s in its pool (%s)", pool, cupyLimit)
}

// cupyBytes reads a limit as CuPy does: bytes, or a percentage of the device. It returns
// 0 if there is no valid limit.
func cupyBytes(text string, total gpu.MiB) int64 {
	if percent, ok := strings.CutSuffix(strings.TrimSpace(text), "%"); ok {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(share > 0 && share <= 100) {
			return 0
		}
		return int64(share / 100 * float64(total) * (1 << 20))
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return bytes
}

func (e *editor) capJAX(share float64, pool gpu.MiB, r *Receipt) {
	if share == 0 {
		r.miss("JAX: not limited, because the size of the device is not known")
		return
	}
	// Set only one name: a jax that knows the newer one raises an error if both are set,
	// and then quietly runs on the CPU (seen with 0.11 on an H200). All versions know the
	// older name; the newer is for users who set it themselves.
	name, other := xlaOld, xlaNew
	if _, newer := e.get(xlaNew); newer {
		name, other = xlaNew, xlaOld
	}
	share = min(e.smaller(name, share), e.smaller(other, share))
	e.set(name, formatShare(share))
	e.unset(other)
	r.limited = append(r.limited, titles[JAX])
	r.hold("JAX: at most %s, taken at once unless %s is false (%s)", pool, xlaGreed, name)
}

// smaller returns share, or the user's own setting if that is smaller.
func (e *editor) smaller(name string, share float64) float64 {
	own, _ := e.get(name)
	if v, err := strconv.ParseFloat(own, 64); err == nil && v > 0 && v < share {
		return v
	}
	return share
}

// capTorch sets the limit of PyTorch in both of its variables. If both are set,
// PyTorch reads the newer one only, so capTorch copies the user's options from
// the older one.
func (e *editor) capTorch(share float64, pool gpu.MiB, version string, amd bool, r *Receipt) {
	switch {
	case share == 0:
		r.miss("PyTorch: not limited, because the size of the device is not known")
		return
	case version != "" && !takesFraction(version):
		r.miss("PyTorch %s: not limited, because it does not start when it is told %s this way; 2.10 and later do", version, torchOption)
		return
	}
	old, _ := e.get(torchOld)
	latest, chosen := e.get(torchNew)
	if !chosen {
		latest = old
	}
	e.set(torchOld, withShare(old, share))
	e.set(torchNew, withShare(latest, share))
	if hip, chosen := e.get(torchHIP); chosen || amd {
		e.set(torchHIP, withShare(hip, share))
	}
	name, short := "PyTorch "+version, "PyTorch "+version
	if version == "" { // an older version would not start, and the user has to know why
		name, short = "PyTorch, if it is 2.10 or later", "PyTorch 2.10 or later"
	}
	r.limited = append(r.limited, short)
	r.hold("%s: at most %s in its allocator (%s)", name, pool, torchNew)
}

// takesFraction reports whether a version of PyTorch knows the option in the environment.
// Earlier versions refuse to start with it.
func takesFraction(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return true // the version is unknown
	}
	return major > 2 || major == 2 && minor >= 10
}

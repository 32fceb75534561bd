package amd

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// kfd returns the directory of AMD's driver for computing.
func kfd(root drm.Root) string { return root.Path("sys/class/kfd/kfd") }

// readNodes returns the GPUs of the driver for computing (KFD), by the number of their
// device file. ROCm counts them in this order.
func readNodes(root drm.Root) map[int]drm.Node {
	dirs, _ := filepath.Glob(filepath.Join(kfd(root), "topology/nodes/*"))
	number := func(dir string) int {
		n, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return math.MaxInt
		}
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	nodes := map[int]drm.Node{}
	count := 0
	for _, dir := range dirs {
		id, err := drm.Number(dir, "gpu_id")
		if err != nil || id <= 0 {
			continue // it is a processor
		}
		n := drm.Node{ID: strconv.FormatInt(id, 10), Ordinal: gpu.Some(count)}
		count++
		if minor, ok := property(dir, "drm_render_minor"); ok {
			nodes[minor] = n
		}
	}
	return nodes
}

// property reads a line of the properties of a node: "drm_render_minor 128".
func property(dir, name string) (int, bool) {
	text, err := drm.Text(dir, "properties")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			return n, err == nil
		}
	}
	return 0, false
}

// computing returns the processes that compute on a GPU, with their memory. KFD reports
// the processes of every user to every reader.
func computing(root drm.Root, n drm.Node) map[int]gpu.MiB {
	folder, err := os.Open(filepath.Join(kfd(root), "proc"))
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	list := map[int]gpu.MiB{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 0 {
			continue
		}
		bytes, err := drm.Number(folder.Name(), name, "vram_"+n.ID)
		if err == nil && bytes > 0 {
			list[pid] = gpu.MiBOf(uint64(bytes))
		}
	}
	return list
}

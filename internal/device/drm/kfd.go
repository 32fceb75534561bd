package drm

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// node is a card as a driver for computing identifies it.
type node struct {
	id      string       // in the names of files; empty if computing is not possible
	ordinal gpu.Opt[int] // as the vendor's runtime counts cards
}

// readNodes returns the cards of the driver for computing whose folder this is, by the
// number of their device file. ROCm counts them in this order.
func readNodes(folder string) map[int]node {
	dirs, _ := filepath.Glob(filepath.Join(folder, "topology/nodes/*"))
	number := func(dir string) int {
		n, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return math.MaxInt
		}
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	nodes := map[int]node{}
	count := 0
	for _, dir := range dirs {
		id, err := Number(dir, "gpu_id")
		if err != nil || id <= 0 {
			continue // it is a processor
		}
		n := node{id: strconv.FormatInt(id, 10), ordinal: gpu.Some(count)}
		count++
		if minor, ok := property(dir, "drm_render_minor"); ok {
			nodes[minor] = n
		}
	}
	return nodes
}

// property reads a line of the properties of a node: "drm_render_minor 128".
func property(dir, name string) (int, bool) {
	text, err := Text(dir, "properties")
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

// computing returns the processes that compute on a card, with their memory. The driver
// reports the processes of every user to every reader.
func (n node) computing(driver string) map[int]gpu.MiB {
	if n.id == "" {
		return nil
	}
	folder, err := os.Open(filepath.Join(driver, "proc"))
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
		bytes, err := Number(folder.Name(), name, "vram_"+n.id)
		if err == nil && bytes > 0 {
			list[pid] = gpu.MiBOf(uint64(bytes))
		}
	}
	return list
}

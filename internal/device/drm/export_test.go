package drm

import "github.com/berth-gpu/berth/internal/device"

const (
	MostFiles = mostFiles
	MostReads = mostReads
)

func (b *Backend) Count(counts map[string]int64, tell func(device.Fault)) { b.count(counts, tell) }

// OpenFiles returns how many files are in each slice of the open files of a process, and
// those of cards.
func OpenFiles(dir string) (slices []int, found []string, err error) {
	for at := int64(0); ; {
		files, read, next, err := openFiles(dir, at)
		for _, f := range files {
			found = append(found, f.fd)
		}
		slices = append(slices, read)
		if at = next; at == 0 {
			return slices, found, err
		}
	}
}

package archive

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/file"
)

// document is the content of the file.
type document struct {
	Leases []Past `json:"leases"` // newest end first
}

// New returns an archive that is empty and kept in no file.
func New() *Archive { return newArchive("") }

func newArchive(path string) *Archive {
	return &Archive{byUser: map[string][]Past{}, ends: map[uint64]time.Time{}, file: file.NewState[document](path, file.StateOptions{
		What: "past leases", Version: 1, Lost: "Leases that have ended are missing from reports.",
	})}
}

// Open reads the file at path, or begins one there. It sets a damaged file aside and
// begins anew: the past is not worth refusing to start.
func Open(path string) (*Archive, *file.Damage) {
	a := newArchive(path)
	return a, a.file.Load(func(d document) error {
		for _, past := range slices.Backward(d.Leases) {
			a.add(past)
			a.ends[past.Fence] = past.Ended
		}
		return nil
	})
}

// write replaces the file. It waits for the disk: some file systems rename a file before
// they have its text, and a power loss would then take all past leases.
func (a *Archive) write() error { return a.file.Save(document{a.All()}) }

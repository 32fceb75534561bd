package archive

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/internal/file"
)

// document is the content of the file. A field may be added under the same
// version if a reader that does not know it still makes sense of the rest.
type document struct {
	Version int    `json:"version"`
	Leases  []Past `json:"leases"` // newest end first
}

const version = 1

// Open reads the file at path, or begins one there. It sets a damaged file aside and
// begins anew: the past is not worth refusing to start.
func Open(path string) (*Archive, *file.Damage) {
	a := New()
	a.path = path
	return a, file.Load(path, "Leases that have ended are missing from reports.", a.take)
}

// take reads the text of a file into a.
func (a *Archive) take(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	if d.Version != version {
		return fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	}
	for _, past := range slices.Backward(d.Leases) {
		a.add(past)
	}
	return nil
}

// write replaces the file, unsynced: a sync would cost the disk more than it is worth.
func (a *Archive) write() error {
	if a.path == "" {
		return nil
	}
	text, err := json.Marshal(document{Version: version, Leases: a.All()})
	if err == nil {
		err = file.ReplaceUnsynced(a.path, text)
	}
	if err != nil {
		return fmt.Errorf("write past leases: %w", err)
	}
	return nil
}

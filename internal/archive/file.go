package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/berth-gpu/berth/internal/wholefile"
)

// document is the content of the file. A field may be added under the same
// version if a reader that does not know it still makes sense of the rest.
type document struct {
	Version int    `json:"version"`
	Leases  []Past `json:"leases"` // newest end first
}

const version = 1

// Open reads the file at path, or begins one there. It renames a file that it
// cannot understand and begins anew: the past is not worth refusing to start.
// The note says so; it is empty if all is well.
func Open(path string) (a *Archive, note string, err error) {
	a = New()
	a.path = path
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read past leases: %w", err)
	}
	var d document
	err = json.Unmarshal(text, &d)
	if err == nil && d.Version != version {
		err = fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	}
	if err != nil {
		aside := path + ".unreadable"
		return a, fmt.Sprintf("Past leases could not be read and are now in %s: %v", aside, err), os.Rename(path, aside)
	}
	for _, past := range slices.Backward(d.Leases) {
		a.add(past)
	}
	return a, "", nil
}

// write replaces the file. It is not synced: that would cost the disk more than
// it is worth.
func (a *Archive) write() error {
	if a.path == "" {
		return nil
	}
	text, err := json.Marshal(document{Version: version, Leases: a.All()})
	if err == nil {
		err = wholefile.WriteUnsynced(a.path, text)
	}
	if err != nil {
		return fmt.Errorf("write past leases: %w", err)
	}
	return nil
}

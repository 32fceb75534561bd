package audit

import (
	"slices"

	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// disk is a folder on a disk that can crash and fill up.
type disk struct{ *disktest.Disk }

// edit changes a file behind the back of the log.
func (d disk) edit(name string, change func([]byte) []byte) {
	text, err := d.ReadFile(name)
	if err != nil {
		panic(err)
	}
	d.WriteFile(name, change(slices.Clone(text)))
}

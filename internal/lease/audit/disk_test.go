package audit

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// disk is a folder on a disk that can crash and fill up.
type disk struct{ *disktest.Disk }

func (d disk) Names() ([]string, error)         { return d.List() }
func (d disk) Read(name string) ([]byte, error) { return d.ReadFile(name) }

func (d disk) Append(name string) (file.Appender, error) {
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = d.Create(name); err == nil {
			err = d.Sync()
		}
	}
	if err != nil {
		return nil, err
	}
	text, err := d.ReadFile(name)
	return &grown{f, d, name, int64(len(text))}, err
}

func (d disk) Rename(from, to string) error {
	if err := d.Disk.Rename(from, to); err != nil {
		return err
	}
	return d.Sync()
}

// grown is a file that is appended to.
type grown struct {
	filelog.File
	disk disk
	name string
	size int64
}

func (g *grown) Write(b []byte) (int, error) {
	n, err := g.WriteAt(b, g.size)
	g.size += int64(n)
	return n, err
}

func (g *grown) Size() (int64, error) {
	text, err := g.disk.ReadFile(g.name)
	if err != nil || int64(len(text)) != g.size { // the test removed it, or put another one in its place
		return 0, file.ErrMoved
	}
	return g.size, nil
}

// edit changes a file behind the back of the log.
func (d disk) edit(name string, change func([]byte) []byte) {
	text, err := d.ReadFile(name)
	if err != nil {
		panic(err)
	}
	d.WriteFile(name, change(slices.Clone(text)))
}

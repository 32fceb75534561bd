package world

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/file"
)

// The folders of the operating system below the folder of a life belong to that life, also to
// those of other machines that are played at the same time.
var lives struct {
	sync.RWMutex
	of map[string]*Life // by folder
}

func init() {
	lives.of = map[string]*Life{}
	file.Simulate(func(path string, real file.Folder) file.Folder {
		lives.RLock()
		defer lives.RUnlock()
		for root, l := range lives.of {
			if path == root || strings.HasPrefix(path, root+"/") {
				return &folder{real, path, l}
			}
		}
		return real
	})
}

// disk is the disk of the machine.
type disk struct {
	mu        sync.Mutex
	full      bool
	broken    bool
	once      int               // writes until one fails; 0: none will
	at        map[string][]byte // by path: what is there if the power fails now, of files that have changed since
	refused   int               // writes that have failed
	refusedAt time.Time
}

// write decides about a write to a file that has size bytes and shall have more.
func (d *disk) write(more bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := error(nil)
	if d.once > 0 {
		if d.once--; d.once == 0 {
			err = syscall.EIO
		}
	}
	switch {
	case d.broken:
		err = syscall.EIO
	case d.full && more:
		err = syscall.ENOSPC
	}
	if err != nil {
		d.refused, d.refusedAt = d.refused+1, time.Now()
	}
	return err
}

// folder is a folder of a daemon that can be killed at each thing that it does there.
type folder struct {
	file.Folder
	path string
	l    *Life
}

func (f *folder) Create(name string) (file.File, error) {
	var made file.File
	err := f.l.do("create "+name, func() (err error) {
		if err = f.l.w.disk.write(true); err == nil {
			made, err = f.Folder.Create(name)
		}
		return err
	})
	return f.opened(name, made, err)
}

func (f *folder) Open(name string) (file.File, error) {
	if f.l.dead() {
		return nil, errKilled
	}
	opened, err := f.Folder.Open(name)
	return f.opened(name, opened, err)
}

func (f *folder) opened(name string, of file.File, err error) (file.File, error) {
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(f.path, name), Err: err}
	}
	size, err := of.Size()
	return &opened{File: of, path: filepath.Join(f.path, name), l: f.l, size: size}, err
}

func (f *folder) ReadFile(name string) ([]byte, error) {
	if f.l.dead() {
		return nil, errKilled
	}
	return f.Folder.ReadFile(name)
}

func (f *folder) Rename(from, to string) error {
	return f.l.do("rename "+to, func() error {
		err := f.Folder.Rename(from, to)
		if err == nil {
			f.l.w.disk.renamed(filepath.Join(f.path, from), filepath.Join(f.path, to))
		}
		return err
	})
}

func (f *folder) Remove(name string) error {
	return f.l.do("remove "+name, func() error { return f.Folder.Remove(name) })
}

func (f *folder) Sync() error {
	return f.l.do("sync "+filepath.Base(f.path), func() error { return f.l.w.disk.write(false) })
}

// opened is an open file.
type opened struct {
	file.File
	path string
	l    *Life
	size int64
}

func (o *opened) WriteAt(b []byte, off int64) (n int, err error) {
	err = o.l.do("write "+filepath.Base(o.path), func() error {
		d := &o.l.w.disk
		err := d.write(off+int64(len(b)) > o.size)
		if err == nil {
			d.changes(o.path)
			n, err = o.File.WriteAt(b, off)
			o.size = max(o.size, off+int64(n))
		}
		return err
	})
	return n, err
}

func (o *opened) Sync() error {
	return o.l.do("sync "+filepath.Base(o.path), func() error {
		if err := o.l.w.disk.write(false); err != nil {
			return err
		}
		o.l.w.disk.synced(o.path)
		return nil
	})
}

// changes notes what a file has before it changes.
func (d *disk) changes(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.at[path]; !known {
		d.at[path], _ = os.ReadFile(path)
	}
}

func (d *disk) synced(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.at, path)
}

func (d *disk) renamed(from, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.at, to)
	if was, changed := d.at[from]; changed {
		d.at[to] = was
		delete(d.at, from)
	}
}

// lose has the files in a folder forget some of what was not synced, as chance says.
func (d *disk) lose(from, to string, chance func(n int) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, was := range d.at {
		rel, err := filepath.Rel(from, path)
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		now, err := os.ReadFile(filepath.Join(to, rel))
		if err != nil {
			continue
		}
		switch chance(3) {
		case 0:
			now = was
		case 1: // torn: the beginning of what was written, and nothing, or what was there, behind it
			same := 0
			for same < len(was) && same < len(now) && was[same] == now[same] {
				same++
			}
			cut := same
			if len(now) > same {
				cut += chance(len(now) - same)
			}
			torn := append([]byte{}, now[:cut]...)
			if len(was) > cut {
				torn = append(torn, was[cut:]...)
			} else {
				torn = append(torn, make([]byte, len(now)-cut)...)
			}
			now = torn
		}
		_ = os.WriteFile(filepath.Join(to, rel), now, 0o600)
	}
	clear(d.at)
}

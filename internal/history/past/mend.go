package past

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/berth-gpu/berth/gpu"
)

const (
	// AsideName is the name of the folder of files that could not be read.
	AsideName = "aside"
	// asideMost is the most of them that are kept.
	asideMost = 3
	// torn is how much of the end of the log may be unreadable after kill -9 without an
	// event about it: one page, which holds seconds.
	torn = 32 << 10
)

// block is the folder of a block, and its description.
type block struct {
	dir      string
	from, to int64 // in milliseconds; to is not included
	err      error // why the description cannot be read
}

// blocksIn returns the blocks in a folder, which may not exist.
func blocksIn(folder string) ([]block, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []block
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		b := block{dir: filepath.Join(folder, e.Name())}
		var meta tsdb.BlockMeta
		text, err := os.ReadFile(filepath.Join(b.dir, "meta.json"))
		if err == nil {
			err = json.Unmarshal(text, &meta)
		}
		b.from, b.to, b.err = meta.MinTime, meta.MaxTime, err
		list = append(list, b)
	}
	return list, nil
}

// mend opens a database. It first puts aside what cannot be read: blocks, then the log,
// then everything.
func (p *Past) mend(s *store, o *tsdb.Options) (*tsdb.DB, error) {
	blocks, err := blocksIn(s.dir)
	if err != nil {
		return nil, err
	}
	var bad []string
	var why error // of the first
	for _, b := range blocks {
		if b.err == nil {
			b.err = tryBlock(b.dir)
		}
		if passing(b.err) {
			return nil, b.err
		}
		if b.err != nil {
			bad, why = append(bad, b.dir), cmp.Or(why, b.err)
		}
	}
	if why != nil {
		if err := p.putAside(s.name, why, bad...); err != nil {
			return nil, err
		}
	}
	db, err := p.openDB(s, o)
	if err == nil || passing(err) {
		return db, err
	}
	log := []string{filepath.Join(s.dir, "wal"), filepath.Join(s.dir, "wbl"), filepath.Join(s.dir, "chunks_head")}
	if err := p.putAside(s.name, err, log...); err != nil {
		return nil, err
	}
	if db, err = p.openDB(s, o); err == nil || passing(err) {
		return db, err
	}
	if err := p.putAside(s.name, err, s.dir); err != nil {
		return nil, err
	}
	if err := makeFolder(s.dir); err != nil {
		return nil, err
	}
	return p.openDB(s, o)
}

// tryBlock returns why a block cannot be opened, or nil.
func tryBlock(dir string) (err error) {
	defer catch(&err)
	b, err := tsdb.OpenBlock(nil, dir, chunkenc.NewPool(), nil)
	if err != nil {
		return err
	}
	return b.Close()
}

// openDB opens a database. The storage repairs its log by cutting off what it cannot
// read, and ignores zeros and files that are too short. openDB keeps the old files aside,
// unless no more is lost than kill -9 takes.
func (p *Past) openDB(s *store, o *tsdb.Options) (db *tsdb.DB, err error) {
	defer catch(&err)
	spare := p.path(AsideName, ".wal-"+s.name)
	if err := os.RemoveAll(spare); err != nil {
		return nil, err
	}
	defer os.RemoveAll(spare)
	wal := filepath.Join(s.dir, "wal")
	closed, missing := s.shortened()
	before, err := linkAll(wal, spare)
	if err != nil {
		return nil, err
	}
	zeros, err := cutZeros(wal)
	if err != nil {
		return nil, err
	}
	numbers := prometheus.NewRegistry()
	open := func() (*tsdb.DB, error) {
		return tsdb.Open(s.dir, slog.New(failures{p.o.Log.Handler()}), numbers, o, nil)
	}
	if db, err = open(); err != nil {
		return nil, err
	}
	why := errors.Join(missing, zeros)
	if corruptions(numbers) > 0 {
		if lost := before - Size(wal); lost > torn || closed {
			why = errors.Join(why, fmt.Errorf("%d kB of the log could not be read", max(lost, 0)>>10))
		}
		if err := db.Close(); err != nil {
			return nil, err
		}
		if _, err := cutZeros(wal); err != nil { // the repair fills the last page with zeros
			return nil, err
		}
		numbers = prometheus.NewRegistry()
		if db, err = open(); err != nil {
			return nil, err
		}
	}
	if why != nil {
		if err := p.putAside(s.name, why, spare); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// corruptions returns how often the storage had to repair its log.
func corruptions(numbers prometheus.Gatherer) float64 {
	all, _ := numbers.Gather() // use what there is
	for _, f := range all {
		if f.GetName() == "prometheus_tsdb_wal_corruptions_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// linkAll makes a second name for each file in a folder, or a copy where the disk has no
// such names, and returns their size.
func linkAll(from, to string) (size int64, err error) {
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		if os.Link(path, filepath.Join(to, rel)) == nil {
			return nil
		}
		text, err := os.ReadFile(path) // of the log, whose files are small
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return size, err
}

// putAside moves files or folders out of the way, keeps what the newest few calls have
// moved, and publishes why. Of what is not there it keeps no empty folder.
func (p *Past) putAside(name string, why error, paths ...string) error {
	to := p.path(AsideName, time.Now().UTC().Format("20060102T150405.000000000")+"-"+name)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("put damaged files of the past aside: %w", err)
	}
	for _, path := range paths {
		err := os.Rename(path, filepath.Join(to, strings.TrimLeft(filepath.Base(path), ".")))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put damaged files of the past aside: %w", err)
		}
	}
	if os.Remove(to) == nil { // it is empty: what cannot be read is not there
		p.say(gpu.Warning, "A part of the past is missing: %v", why)
		return nil
	}
	p.clearAside(asideMost)
	p.o.Event(gpu.Event{
		Time: time.Now(), Code: gpu.EventPast, Severity: gpu.Warning, Data: map[string]any{"aside": to},
		Text: fmt.Sprintf("A part of the past cannot be read, and was put aside as %s: %v", to, why), Public: "A part of the past cannot be read, and was put aside",
	})
	return nil
}

// clearAside removes all but the newest of the files that were put aside.
func (p *Past) clearAside(most int) {
	entries, err := os.ReadDir(p.path(AsideName))
	if err != nil {
		return
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	for len(names) > most {
		if err := os.RemoveAll(p.path(AsideName, names[0])); err != nil {
			p.o.Log.Warn("cannot remove old damaged files of the past", "error", err)
			return
		}
		names = names[1:]
	}
}

// examine reads every chunk of a block, and returns what is wrong with it.
func examine(dir string) (err error) {
	defer catch(&err)
	b, err := tsdb.OpenBlock(nil, dir, chunkenc.NewPool(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return readAll(b)
}

package past

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-gpu/berth/internal/file"
)

// sizesName is the name of the file in the folder of a store that holds the lengths of
// the files of its log. It exists while no daemon writes. A daemon that is killed leaves
// none, and then the right lengths are not known.
const sizesName = "log.json"

func (s *store) sizes() *file.State[map[string]int64] {
	return file.NewState[map[string]int64](filepath.Join(s.dir, sizesName), file.StateOptions{What: "the lengths of the files of the log"})
}

// noteSizes writes the lengths of the files of the log to a file, for the next start.
func (s *store) noteSizes() {
	sizes := map[string]int64{}
	wal := filepath.Join(s.dir, "wal")
	err := eachFile(wal, func(path string, info fs.FileInfo) error {
		name, err := filepath.Rel(wal, path)
		sizes[name] = info.Size()
		return err
	})
	if err == nil {
		_ = s.sizes().SaveUnsynced(sizes) // if it fails, the next start notices less
	}
}

// shortened returns an error if files of the log are shorter than they were when the
// store was closed. Closed is false if their lengths then are not known.
func (s *store) shortened() (closed bool, err error) {
	var sizes map[string]int64
	_ = s.sizes().Read(func(read map[string]int64) error { // a damaged file says nothing
		sizes = read
		return nil
	})
	if err := os.RemoveAll(filepath.Join(s.dir, sizesName)); err != nil { // the files change from now on
		return false, err
	}
	missing := int64(0)
	for name, size := range sizes {
		has := int64(0)
		if info, err := os.Stat(filepath.Join(s.dir, "wal", name)); err == nil && info.Mode().IsRegular() {
			has = info.Size()
		}
		missing += max(size-has, 0)
	}
	if missing > 0 {
		err = fmt.Errorf("%d bytes of the log are missing", missing)
	}
	return sizes != nil, err
}

// walPage is the size of a page of the log. The first byte of a page that was
// written is not zero.
const walPage = 32 << 10

// cutZeros ends each file of a log before the first page that is zero. The storage would
// read such a page as one without records, without reporting it. The error zeros says how
// much there was. cutZeros writes new files, so that second names lead to the old ones.
func cutZeros(wal string) (zeros error, err error) {
	cut := 0
	err = eachFile(wal, func(path string, _ fs.FileInfo) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil // the storage reports what is wrong with it
		}
		for at := 0; at < len(text); at += walPage {
			if text[at] != 0 {
				continue
			}
			cut += len(text) - at
			if err := os.WriteFile(path+".new", text[:at], 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}
		return nil
	})
	if cut > 0 {
		zeros = fmt.Errorf("%d bytes of the log are zero, or follow such bytes", cut)
	}
	return zeros, err
}

// eachFile calls do with every file in a folder. It treats a missing folder as empty.
func eachFile(folder string, do func(path string, info fs.FileInfo) error) error {
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		return do(path, info)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

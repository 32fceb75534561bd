package backup

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

// errArchive means that an archive is not as berth writes them.
var errArchive = errors.New("it is not a whole backup of berth")

// unpack writes the files of an archive into an empty folder, and checks each sum. It
// calls step after each file.
func unpack(from io.Reader, into *os.Root, step func(string)) (h Header, said sums, err error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return h, said, fmt.Errorf("%w: %w", errArchive, err)
	}
	r := tar.NewReader(zip)
	e, err := r.Next()
	switch {
	case err != nil:
		return h, said, fmt.Errorf("%w: %w", errArchive, err)
	case e.Name != headerName:
		return h, said, fmt.Errorf("%w: it begins with %q", errArchive, e.Name)
	}
	if err = decode(r, e, &h); err == nil {
		err = h.check()
	}
	found := map[string]sum{}
	for err == nil {
		if e, err = r.Next(); err != nil {
			return h, said, fmt.Errorf("%w: its end is missing: %w", errArchive, err)
		}
		if e.Name == sumsName {
			break
		}
		if err = allowed(e, h.Secrets, found); err == nil {
			found[e.Name], err = unpackFile(r, e, into)
			step("unpacked " + e.Name)
		}
	}
	if err == nil {
		err = decode(r, e, &said)
	}
	if err != nil {
		return h, said, err
	}
	if _, err := r.Next(); err != io.EOF {
		return h, said, fmt.Errorf("%w: something follows its end", errArchive)
	}
	if _, err := io.Copy(io.Discard, zip); err != nil { // the checksum of all is at the end
		return h, said, fmt.Errorf("%w: %w", errArchive, err)
	}
	return h, said, compare(said.Files, found)
}

// check refuses an archive that a newer berth wrote.
func (h *Header) check() error {
	newer := func(what string, found, known int) error {
		return doctor.Hinted(fmt.Errorf("berth %s wrote this backup: %s has format %d, and this berth reads up to %d", h.Version, what, found, known), "restore it with the berth that wrote it, or a newer one")
	}
	if h.Format < 1 {
		return fmt.Errorf("%w: it has no format", errArchive)
	}
	if h.Format > Format {
		return newer("it", h.Format, Format)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Formats)) {
		i, known := inventory.Find(name)
		if !known || i.Path != name {
			return newer(fmt.Sprintf("%q, which this berth does not know,", name), h.Formats[name], 0)
		}
		if h.Formats[name] > i.Version {
			return newer(name, h.Formats[name], i.Version)
		}
	}
	return nil
}

// allowed refuses an entry that no backup has: what is not a file, has a path outside of
// the folder, is unknown, or was there already.
func allowed(e *tar.Header, secrets bool, found map[string]sum) error {
	_, twice := found[e.Name]
	switch i, _ := inventory.Find(e.Name); {
	case e.Typeflag != tar.TypeReg:
		return fmt.Errorf("%w: %q is not a file, but of the kind %q", errArchive, e.Name, string(rune(e.Typeflag)))
	case !fs.ValidPath(e.Name):
		return fmt.Errorf("%w: the path %q leads out of the folder", errArchive, e.Name)
	case !inventory.Copyable(e.Name):
		return fmt.Errorf("%w: no state folder has the file %q", errArchive, e.Name)
	case twice:
		return fmt.Errorf("%w: it has %s twice", errArchive, e.Name)
	case i.Care == inventory.Secret && !secrets:
		return fmt.Errorf("%w: it says that it has no secrets, and has %s", errArchive, e.Name)
	case e.Size < 0 || i.Kind == inventory.State && e.Size > mostText:
		return fmt.Errorf("%w: %s has %d bytes", errArchive, e.Name, e.Size)
	}
	return nil
}

func unpackFile(r io.Reader, e *tar.Header, into *os.Root) (sum, error) {
	file, folder := fs.FileMode(0o600), fs.FileMode(0o700)
	if i, _ := inventory.Find(e.Name); i.Open() { // the daemon's group may read it
		file, folder = 0o640, 0o750
	}
	if err := into.MkdirAll(path.Dir(e.Name), folder); err != nil {
		return sum{}, err
	}
	f, err := into.OpenFile(e.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, file)
	if err != nil {
		return sum{}, err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), r)
	if err == nil {
		err = f.Sync()
	}
	if disk := (*fs.PathError)(nil); err != nil && !errors.As(err, &disk) {
		err = fmt.Errorf("%w: %w", errArchive, err)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return sum{}, fmt.Errorf("unpack %s: %w", e.Name, err)
	}
	return sum{n, hex.EncodeToString(hash.Sum(nil))}, nil
}

// compare refuses files that are not those that the archive says it has.
func compare(said, found map[string]sum) error {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		switch is, there := found[name]; {
		case !there:
			return fmt.Errorf("%w: %s is missing", errArchive, name)
		case is != said[name]:
			return fmt.Errorf("%w: %s is not what was backed up: its sum is wrong", errArchive, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, known := said[name]; !known {
			return fmt.Errorf("%w: somebody added %s", errArchive, name)
		}
	}
	return nil
}

func decode(r io.Reader, e *tar.Header, v any) error {
	if e.Typeflag != tar.TypeReg || e.Size > mostText {
		return fmt.Errorf("%w: its %s is no text", errArchive, e.Name)
	}
	if err := json.NewDecoder(r).Decode(v); err != nil {
		return fmt.Errorf("%w: %s: %w", errArchive, e.Name, err)
	}
	return nil
}

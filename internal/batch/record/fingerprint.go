package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/internal/text/words"
)

// Fingerprint identifies an input, so that a run can tell whether its input is
// still the same. It is stored with the run.
type Fingerprint struct {
	Format Format     `json:"format"`
	Stream bool       `json:"stream,omitempty"` // whether it cannot be read again, so that nothing more is known
	Files  int        `json:"files"`
	Bytes  int64      `json:"bytes"`
	Digest string     `json:"digest"`           // over all the files
	Commas string     `json:"commas,omitempty"` // digest of what separates the columns of each CSV file; earlier versions have none
	Each   []FileMark `json:"each,omitempty"`   // empty if there are many files
}

// FileMark identifies one file.
type FileMark struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

const (
	hashWhole = 64 << 20 // files up to this size are read whole
	hashEnds  = 1 << 20  // bytes at each end of larger files
	marksKept = 100
)

// Fingerprint reads enough of the input to recognise it: small files whole, and
// of large ones the beginning, the end and the time of the last change. If
// files are records, their names, sizes and times count, and their contents do
// not.
func (s *Source) Fingerprint() (Fingerprint, error) {
	f := Fingerprint{Format: s.format, Stream: s.stream, Files: len(s.files), Bytes: s.total}
	if s.stream {
		return f, nil
	}
	whole, commas := sha256.New(), sha256.New()
	for _, file := range s.files {
		mark := FileMark{Path: file.path, Size: file.stat.Size()}
		var err error
		if mark.Digest, err = s.digest(file); err != nil {
			return f, fmt.Errorf("input: %w", err)
		}
		fmt.Fprintf(whole, "%d %s\n", mark.Size, mark.Digest)
		commas.Write([]byte{commaOf(file.path)})
		if len(s.files) <= marksKept && s.format != Files {
			f.Each = append(f.Each, mark)
		}
	}
	if f.Digest = sum(whole); s.format == CSV {
		f.Commas = sum(commas)
	}
	return f, nil
}

func (s *Source) digest(f file) (string, error) {
	h := sha256.New()
	if s.format == Files {
		fmt.Fprintf(h, "%q %d", f.path, f.stat.ModTime().UnixNano())
		return sum(h), nil
	}
	r, err := os.Open(f.path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if f.stat.Size() <= hashWhole {
		_, err = io.Copy(h, r)
		return sum(h), err
	}
	if _, err = io.CopyN(h, r, hashEnds); err != nil {
		return "", err
	}
	if _, err = r.Seek(-hashEnds, io.SeekEnd); err != nil {
		return "", err
	}
	_, err = io.CopyN(h, r, hashEnds)
	fmt.Fprintf(h, "%s", f.stat.ModTime().UTC().Format(time.RFC3339Nano))
	return sum(h), err
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// Difference returns in a few words how the input differs from the one before, or "" if
// they are the same. The folder of a file does not matter.
func (f Fingerprint) Difference(before Fingerprint) string {
	switch {
	case f.Stream || before.Stream:
		return "it is a stream, and berth cannot read it again"
	case f.Format != before.Format:
		return fmt.Sprintf("it was read as %s and is now read as %s", before.Format, f.Format)
	case f.Files != before.Files:
		return fmt.Sprintf("it was %s and now is %s", words.Count(before.Files, "file"), words.Count(f.Files, "file"))
	case before.Commas != "" && f.Commas != before.Commas:
		return "a file was renamed: in a .tsv tabs separate the columns, in others commas"
	case f.Digest == before.Digest:
		return ""
	}
	for i, mark := range f.Each {
		if i >= len(before.Each) {
			break
		}
		old := before.Each[i]
		switch {
		case old.Digest != mark.Digest && filepath.Base(old.Path) != filepath.Base(mark.Path):
			return fmt.Sprintf("it was %s and now is %s, which is another file", old.Path, mark.Path)
		case old.Size != mark.Size:
			return fmt.Sprintf("%s had %d bytes and now has %d", mark.Path, old.Size, mark.Size)
		case old.Digest != mark.Digest:
			return fmt.Sprintf("%s has other content", mark.Path)
		}
	}
	return "files were changed, renamed or replaced"
}

package remote

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzUnpackFiles unpacks whatever a runner may send. Nothing appears outside of the
// folder.
func FuzzUnpackFiles(f *testing.F) {
	for _, head := range []tar.Header{
		{Name: "a/b", Typeflag: tar.TypeReg, Size: 4, Mode: 0o755}, {Name: "../out", Typeflag: tar.TypeReg, Size: 4},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "/etc/out", Typeflag: tar.TypeDir}, {Name: "pipe", Typeflag: tar.TypeFifo},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&head); err != nil {
			f.Fatal(err)
		}
		if head.Typeflag == tar.TypeReg {
			_, _ = w.Write([]byte("text"))
		}
		_ = w.Close()
		f.Add(b.Bytes())
	}
	// A link that leads out, and a file through it.
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: ".."})
	_ = w.WriteHeader(&tar.Header{Name: "link/out", Typeflag: tar.TypeReg, Size: 4})
	_, _ = w.Write([]byte("text"))
	_ = w.Close()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, archive []byte) {
		outer := t.TempDir()
		folder := filepath.Join(outer, "in")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = unpackFiles(folder, bytes.NewReader(archive)) // most are refused
		entries, err := os.ReadDir(outer)
		if err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
	})
}

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// machine writes programs and packages as a build machine has them, and returns
// options that take them.
func machine(t *testing.T) *options {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"bin/berth": "a command", "bin/berth-serve": "a daemon", "bin/berth-dra": "a driver",
		"debian/lib64/ld-linux-x86-64.so.2":                "a linker",
		"debian/usr/share/ca-certificates/mozilla/b.crt":   "second\n",
		"debian/usr/share/ca-certificates/mozilla/a.crt":   "first\n\n",
		"debian/usr/share/doc/libc6/copyright":             "terms",
		"debian/usr/share/doc/ca-certificates/copyright":   "terms",
		"debian/lib/x86_64-linux-gnu/libnever-used.so.1":   "left out",
		"debian/lib/x86_64-linux-gnu/gconv/libnever-us.so": "left out",
	} {
		write(t, filepath.Join(folder, name), text)
	}
	for _, name := range libraries {
		write(t, filepath.Join(folder, "debian/lib/x86_64-linux-gnu", name), name)
	}
	return &options{
		programs: filepath.Join(folder, "bin"), debian: filepath.Join(folder, "debian"), out: filepath.Join(folder, "out"),
		repository: "registry.test/berth", tag: "v1", version: "v1-3", created: time.Unix(1700000000, 0).UTC(),
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// content of an image: path to text.
func contentOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, layer := range layers {
		text, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		in := tar.NewReader(text)
		for {
			h, err := in.Next()
			if err == io.EOF {
				break
			}
			data, readErr := io.ReadAll(in)
			if err != nil || readErr != nil || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1700000000 {
				t.Fatalf("%+v: %v, %v", h, err, readErr)
			}
			got[h.Name] = string(data)
		}
	}
	return got
}

func TestImages(t *testing.T) {
	o := machine(t)
	if err := o.run(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]string{
		"berth": {
			"usr/local/bin/berth": "a command", "usr/local/bin/berth-serve": "a daemon",
			"lib64/ld-linux-x86-64.so.2": "a linker", "lib/x86_64-linux-gnu/libc.so.6": "libc.so.6",
			"etc/ssl/certs/ca-certificates.crt": "first\nsecond\n", "usr/share/doc/libc6/copyright": "terms",
		},
		"berth-dra": {"usr/local/bin/berth-dra": "a driver"},
	} {
		file := filepath.Join(o.out, name+".tar")
		image, err := tarball.ImageFromPath(file, nil) // by manifest.json, as Docker and Podman read it
		if err != nil {
			t.Fatal(err)
		}
		got := contentOf(t, image)
		for path, text := range want {
			if got[path] != text {
				t.Errorf("%s: %s is %q, want %q", name, path, got[path], text)
			}
		}
		for path := range got {
			if strings.Contains(path, "never-us") {
				t.Errorf("%s has %s", name, path)
			}
		}
		config, err := image.ConfigFile()
		if err != nil || config.Config.User != nonroot || config.Config.Entrypoint[0] != "/usr/local/bin/"+name ||
			config.Config.Labels["org.opencontainers.image.version"] != "v1-3" || !config.Created.Equal(o.created) {
			t.Errorf("%s: %+v, %v", name, config, err)
		}
		index, err := layout.ImageIndexFromPath(unpack(t, file)) // by index.json, as containerd reads it
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["io.containerd.image.name"] != "registry.test/berth/"+name+":v1" {
			t.Fatalf("%s: %+v, %v", name, manifest, err)
		}
		same, err := index.Image(manifest.Manifests[0].Digest)
		if err != nil || !maps.Equal(contentOf(t, same), got) {
			t.Errorf("%s: containerd and Docker would read different files: %v", name, err)
		}
	}
}

// unpack unpacks an archive and returns the folder.
func unpack(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	folder := t.TempDir()
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return folder
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, h.Name), string(data))
		}
	}
}

// The same programs give the same bytes, whenever and wherever they are packed.
func TestTheSameBytes(t *testing.T) {
	first, second := machine(t), machine(t)
	for _, o := range []*options{first, second} {
		if err := o.run(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"berth.tar", "berth-dra.tar"} {
		a, err := os.ReadFile(filepath.Join(first.out, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second.out, name))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %d and %d bytes, %v", name, len(a), len(b), err)
		}
	}
}

// What is missing is named, with what to do, and leaves no half archive.
func TestWhatIsMissing(t *testing.T) {
	for missing, want := range map[string]string{
		"bin/berth-dra":   "make build driver",
		"bin/berth-serve": "make build driver",
		"debian/lib64":    "unpack the package libc6",
		"debian/lib/x86_64-linux-gnu/libresolv.so.2": "has no libresolv.so.2: unpack the package libc6",
		"debian/usr/share/ca-certificates":           "unpack the package ca-certificates",
		"debian/usr/share/doc/libc6":                 "copyright",
	} {
		o := machine(t)
		if err := os.RemoveAll(filepath.Join(filepath.Dir(o.out), missing)); err != nil {
			t.Fatal(err)
		}
		if err := o.run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, want %q", missing, err, want)
		}
		if left, _ := os.ReadDir(o.out); len(left) > 0 {
			t.Errorf("without %s: %v is left", missing, left)
		}
	}
}

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// files are the files of a layer by their paths, without the leading slash.
type files map[string]file

type file struct {
	data []byte
	mode int64
}

// layer returns a layer with the files. All belong to root and have the same time.
func (f files) layer(created time.Time) (v1.Layer, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	header := func(h tar.Header) error {
		h.ModTime, h.Format = created, tar.FormatPAX
		return w.WriteHeader(&h)
	}
	folders := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for _, folder := range above(name) {
			if !folders[folder] {
				folders[folder] = true
				if err := header(tar.Header{Name: folder + "/", Mode: modeOf(folder), Typeflag: tar.TypeDir}); err != nil {
					return nil, err
				}
			}
		}
		if err := header(tar.Header{Name: name, Mode: f[name].mode, Size: int64(len(f[name].data)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f[name].data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
}

// above returns the folders above a path, the highest first.
func above(name string) (folders []string) {
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		folders = append(folders, folder)
	}
	slices.Reverse(folders)
	return folders
}

func modeOf(folder string) int64 {
	if folder == "tmp" {
		return 0o1777
	}
	return 0o755
}

// programs returns the programs of a folder, at paths where a shell looks for them.
func programs(folder string, names ...string) (files, error) {
	f := files{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, fmt.Errorf("%w; build it first: make build driver", err)
		}
		f["usr/local/bin/"+name] = file{data: data, mode: 0o755}
	}
	return f, nil
}

// accounts returns the users that programs look up: root, and the default user of images.
func accounts() files {
	return files{
		"etc/passwd": {mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		"etc/group":  {mode: 0o644, data: []byte("root:x:0:\nnonroot:x:65532:\n")},
	}
}

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nonroot is the default user of an image.
const nonroot = "65532:65532"

// content is the content of an image.
type content struct {
	name, about string
	layers      []files
	entrypoint  string
}

// image returns the image with its labels.
func (o *options) image(c content) (v1.Image, error) {
	whole := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	var addenda []mutate.Addendum
	for _, f := range c.layers {
		layer, err := f.layer(o.created)
		if err != nil {
			return nil, err
		}
		addenda = append(addenda, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: o.created}, CreatedBy: "make images"},
		})
	}
	whole, err := mutate.Append(whole, addenda...)
	if err != nil {
		return nil, err
	}
	config, err := whole.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = runtime.GOARCH, "linux", v1.Time{Time: o.created}
	config.Config = v1.Config{
		Entrypoint: []string{c.entrypoint}, User: nonroot, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       c.name,
			"org.opencontainers.image.description": c.about,
			"org.opencontainers.image.version":     o.version,
			"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
			"org.opencontainers.image.source":      "https://github.com/berth-gpu/berth",
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(whole, config)
}

// write writes the image as an archive, under a temporary name until it is whole, and
// returns its size.
func (o *options) write(c content, out string) (size int64, err error) {
	image, err := o.image(c)
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "berth-image-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	reference := o.repository + "/" + c.name + ":" + o.tag
	at, err := layout.Write(folder, empty.Index)
	if err != nil {
		return 0, err
	}
	err = at.AppendImage(image, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": o.tag,
	}))
	if err != nil {
		return 0, err
	}
	manifest, err := dockerManifest(image, reference)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(folder, "manifest.json"), manifest, 0o644); err != nil {
		return 0, err
	}
	var text bytes.Buffer
	if err := pack(&text, folder, o.created); err != nil {
		return 0, err
	}
	size = int64(text.Len())
	if err := os.WriteFile(out+".part", text.Bytes(), 0o644); err != nil {
		return 0, err
	}
	return size, os.Rename(out+".part", out)
}

// dockerManifest returns the file manifest.json, by which Docker finds the parts of an
// image in an archive.
func dockerManifest(image v1.Image, reference string) ([]byte, error) {
	m, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(m.Config.Digest), RepoTags: []string{reference}}
	for _, layer := range m.Layers {
		entry.Layers = append(entry.Layers, blob(layer.Digest))
	}
	return json.Marshal([]any{entry})
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// pack writes a folder as a tar file, sorted by name and with the same time everywhere.
func pack(w io.Writer, folder string, created time.Time) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			return out.WriteHeader(&tar.Header{Name: strings.TrimSuffix(name, "/") + "/", Mode: 0o755, ModTime: created, Typeflag: tar.TypeDir})
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: created, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return out.Close()
}

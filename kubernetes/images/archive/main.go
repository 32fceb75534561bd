// Command archive writes an image that contains nothing but one static program, as an
// archive that containerd imports:
//
//	archive NAME[:TAG] PROGRAM OUT.tar
//
// The program is in the root of the image under its own name, and is the entrypoint.
package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "archive NAME[:TAG] PROGRAM OUT.tar")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write the image:", err)
		os.Exit(1)
	}
}

// write writes an image with one program, under a temporary name until it is whole.
func write(image, program, out string) error {
	tag, err := name.NewTag(image)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	path := "/" + filepath.Base(program)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Name: path[1:], Mode: 0o755, Size: int64(len(binary)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := w.Write(binary); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return err
	}
	whole, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := whole.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Config = runtime.GOARCH, "linux", v1.Config{Entrypoint: []string{path}}
	if whole, err = mutate.ConfigFile(whole, config); err != nil {
		return err
	}
	if err := tarball.WriteToFile(out+".part", tag, whole); err != nil {
		return err
	}
	return os.Rename(out+".part", out)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A program of the checkout that a cluster runs.
type program struct {
	name    string
	folder  string // of the repository
	source  string // in that folder
	dynamic bool   // linked with the C library
}

func programs() []program {
	return []program{
		{name: "berth-serve", folder: ".", source: "./cmd/berth-serve", dynamic: true},
		{name: "berth", folder: ".", source: "./cmd/berth"},
		{name: "berth-dra", folder: "kubernetes", source: "./cmd/berth-dra"},
		{name: "work", folder: "test/kubernetes", source: "./workload"},
	}
}

// archives are the images that each node imports: of the driver and the daemon, as
// users get them, and of the workload.
func archives() []string { return []string{"berth-dra.tar", "berth.tar", "work.tar"} }

// build builds the programs of the checkout, and the images of those that run in pods.
func (p Place) build(ctx context.Context) error {
	if os.Getuid() != 0 {
		return errors.New("a cluster needs root, because it makes namespaces, mounts and control groups: sudo -E make k8s")
	}
	if err := p.script(ctx, nil, "build.sh"); err != nil {
		return err
	}
	return timed("build the daemon, the driver, the workload and their images", func() error {
		bin, images, debian := p.run+"/bin", p.run+"/images", p.lab+"/debian"
		for _, dir := range []string{bin, images} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		for _, b := range programs() {
			cgo := "CGO_ENABLED=0"
			if b.dynamic {
				cgo = "CGO_ENABLED=1"
			}
			// Under another name first: the file may be running. go build does not link
			// again what is there already.
			if err := p.tool(ctx, ".", "", "bash", "-c", `[ ! -e "$0" ] || cp -p "$0" "$1"`, bin+"/"+b.name, bin+"/."+b.name); err != nil {
				return err
			}
			if err := p.tool(ctx, b.folder, cgo, "go", "build", "-trimpath", "-o", bin+"/."+b.name, b.source); err != nil {
				return fmt.Errorf("cannot build %s: %w", b.name, err)
			}
			if err := os.Rename(bin+"/."+b.name, bin+"/"+b.name); err != nil {
				return err
			}
		}
		if err := p.tool(ctx, ".", "", "bash", "-c", `deploy/tools.sh prometheus && cp -p bin/prometheus-debian "$0"`, bin+"/prometheus"); err != nil {
			return fmt.Errorf("cannot get Debian's Prometheus: %w", err)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if err := p.tool(ctx, ".", "", "install", self, bin+"/e2e"); err != nil {
			return fmt.Errorf("cannot copy this program: %w", err)
		}
		if err := p.tool(ctx, ".", "", "bash", "kubernetes/images/debian.sh", debian); err != nil {
			return fmt.Errorf("cannot get what the images take from Debian: %w", err)
		}
		if err := p.tool(ctx, "kubernetes/images", "CGO_ENABLED=0", "go", "run", "-trimpath", ".", "-programs", bin, "-debian", debian, "-out", images); err != nil {
			return fmt.Errorf("cannot write the images of berth: %w", err)
		}
		if err := p.tool(ctx, "kubernetes/images", "CGO_ENABLED=0", "go", "run", "-trimpath", "./archive", image, bin+"/work", images+"/work.tar"); err != nil {
			return fmt.Errorf("cannot write the image of the workload: %w", err)
		}
		return nil
	})
}

// tool runs a command in a folder of the repository.
func (p Place) tool(ctx context.Context, folder, env string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(p.root, folder)
	cmd.Env = append(os.Environ(), env)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

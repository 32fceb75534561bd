package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A program of the checkout that a cluster runs.
type program struct {
	name    string
	folder  string // of the repository
	cgo     string
	image   string // of the program, if it runs in pods
	carried bool   // into the folder of the cluster
}

func programs() []program {
	return []program{
		{name: "berth-serve", folder: ".", cgo: "1", carried: true},
		{name: "berth", folder: ".", cgo: "1", carried: true},
		{name: "berth-dra", folder: "kubernetes", cgo: "0", image: "ghcr.io/berth-gpu/berth-dra:dev"},
		{name: "work", folder: "kubernetes", cgo: "0", image: image},
		{name: "e2e", folder: "kubernetes", cgo: "0", carried: true},
	}
}

// packages says where programs are that are not in cmd/NAME.
func packageOf(name string) string {
	switch name {
	case "work":
		return "./e2e/workload"
	case "e2e":
		return "./e2e"
	}
	return "./cmd/" + name
}

// build builds the programs of the checkout, and the images of those that run in pods.
func (p Place) build(ctx context.Context) error {
	if err := p.script(ctx, nil, "build.sh"); err != nil {
		return err
	}
	return timed("build the daemon, the driver, the workload and their images", func() error {
		for _, dir := range []string{"bin", "images"} {
			if err := os.MkdirAll(p.run+"/"+dir, 0o755); err != nil {
				return err
			}
		}
		for _, b := range programs() {
			// Under another name first: the file may be running.
			part := p.run + "/bin/." + b.name
			if err := p.tool(ctx, filepath.Join(p.module, "..", b.folder), b.cgo, "build", "-trimpath", "-o", part, packageOf(b.name)); err != nil {
				return fmt.Errorf("cannot build %s: %w", b.name, err)
			}
			if err := os.Rename(part, p.run+"/bin/"+b.name); err != nil {
				return err
			}
			if b.image == "" {
				continue
			}
			if err := p.tool(ctx, p.module, "0", "run", "-trimpath", "./e2e/archive", b.image, p.run+"/bin/"+b.name, p.run+"/images/"+b.name+".tar"); err != nil {
				return fmt.Errorf("cannot write the image of %s: %w", b.name, err)
			}
		}
		return nil
	})
}

// tool runs the go command.
func (p Place) tool(ctx context.Context, folder, cgo string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

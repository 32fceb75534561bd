// Command images writes the images of berth as archives: berth, with the daemon and its
// command, and berth-dra, with the driver alone.
//
// It needs no registry and no container engine, and the same programs give the same bytes
// every time.
//
// An archive is an OCI image layout in a tar file that also has the manifest.json of
// Docker: `ctr images import`, `docker load` and `podman load` all accept it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	o := options{}
	flag.StringVar(&o.programs, "programs", "bin", "folder with berth, berth-serve and berth-dra")
	flag.StringVar(&o.debian, "debian", "", "folder with the unpacked packages libc6 and ca-certificates of Debian")
	flag.StringVar(&o.out, "out", "dist/images", "folder to write the archives to")
	flag.StringVar(&o.repository, "repository", "ghcr.io/berth-gpu", "what the names of the images begin with")
	flag.StringVar(&o.tag, "tag", "dev", "tag of the images")
	flag.StringVar(&o.version, "version", "dev", "version of the programs, for the labels")
	created := flag.Int64("created", 0, "when the images were made, in seconds since 1970")
	flag.Parse()
	o.created = time.Unix(*created, 0).UTC()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "images takes no arguments, not %q\n", flag.Args())
		os.Exit(2)
	}
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write the images:", err)
		os.Exit(1)
	}
}

type options struct {
	programs, debian, out    string
	repository, tag, version string
	created                  time.Time
}

func (o *options) run() error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	berth, err := o.berth()
	if err != nil {
		return fmt.Errorf("berth: %w", err)
	}
	driver, err := o.driver()
	if err != nil {
		return fmt.Errorf("berth-dra: %w", err)
	}
	for _, i := range []content{berth, driver} {
		file := filepath.Join(o.out, i.name+".tar")
		size, err := o.write(i, file)
		if err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		fmt.Printf("%s  %s/%s:%s  %.1f MB\n", file, o.repository, i.name, o.tag, float64(size)/1e6)
	}
	return nil
}

// berth returns the content of the image of the daemon.
func (o *options) berth() (content, error) {
	system, err := debian(o.debian)
	if err != nil {
		return content{}, err
	}
	programs, err := programs(o.programs, "berth", "berth-serve")
	return content{
		name: "berth", about: "Leases, limits and health of GPUs: the daemon and its command",
		layers: []files{system, programs}, entrypoint: "/usr/local/bin/berth",
	}, err
}

// driver returns the content of the image of the driver.
func (o *options) driver() (content, error) {
	programs, err := programs(o.programs, "berth-dra")
	return content{
		name: "berth-dra", about: "The driver that gives pods shares of GPUs (dynamic resource allocation)",
		layers: []files{accounts(), programs}, entrypoint: "/usr/local/bin/berth-dra",
	}, err
}

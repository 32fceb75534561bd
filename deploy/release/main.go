// Command release packs what was built for one kind of machine: a tar.gz, a package for
// Debian and one for Red Hat and its kin.
//
// The same files and the same time give the same bytes, wherever they lie.
//
//	release -version 0.1.0 -arch amd64 -programs dist/build/amd64 -extra dist/extra -created 1790000000 -out dist/release
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	o := options{}
	flag.StringVar(&o.repository, "repository", "../..", "root of the repository")
	flag.StringVar(&o.version, "version", "", "version of berth")
	flag.StringVar(&o.packaged, "package-version", "", "the same for package managers; a ~ sorts before the release (default: version)")
	flag.StringVar(&o.arch, "arch", "amd64", "kind of machine: amd64 or arm64")
	flag.StringVar(&o.programs, "programs", "", "folder with berth and berth-serve")
	flag.StringVar(&o.extra, "extra", "", "folder with man, completions and licences.txt")
	flag.StringVar(&o.out, "out", "", "folder to write to")
	flag.IntVar(&o.entries, "entries", 0, "newest version of an entry of the journal that the programs read (default: what the repository says)")
	flag.StringVar(&o.maintainer, "maintainer", nobody, "who answers for the packages: a name and an address")
	created := flag.Int64("created", 0, "time of all files, in seconds since 1970")
	flag.Parse()
	if flag.NArg() > 0 || o.version == "" || o.programs == "" || o.extra == "" || o.out == "" {
		fmt.Fprintln(os.Stderr, "release needs -version, -programs, -extra and -out, and takes no arguments")
		os.Exit(2)
	}
	if o.packaged == "" {
		o.packaged = o.version
	}
	o.created = time.Unix(*created, 0).UTC()
	written, err := o.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot pack the release:", err)
		os.Exit(1)
	}
	for _, path := range written {
		fmt.Println(path)
	}
}

type options struct {
	repository, programs, extra, out string
	version, packaged, arch          string
	maintainer                       string
	entries                          int
	created                          time.Time
}

// Command audit checks what goes out of the house: the binaries, the unit, the
// modules that they are made of.
//
// It prints a line for each check, and ends with 1 if one failed. What it could
// not check, it says, with what is missing:
//
//	make build && go run ./test/audit
//
// It writes a bill of materials for each binary beside it, in CycloneDX's format.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	bin := flag.String("bin", "bin", "the folder with berth and berth-serve")
	units := flag.String("units", "deploy/systemd", "the folder with the unit and its drop-in")
	database := flag.String("db", "", "a database of vulnerabilities, such as file:///srv/vulndb (default: Go's own)")
	version := flag.String("version", "dev", "the version of the binaries")
	parts := flag.String("parts", "", "write only what the binaries that follow, the page and the Python package are made of, and its licences, into this folder")
	flag.Parse()
	if *parts != "" {
		if err := writeParts(*parts, *version, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "audit:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*bin, *version, *units, *database); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

// errUnchecked says that a check could not be made.
var errUnchecked = errors.New("not checked")

// check is one thing that is looked at. What it finds is a line for people.
type check struct {
	name string
	look func() (found string, err error)
}

func run(bin, version, units, database string) error {
	var checks []check
	for _, name := range []string{"berth", "berth-serve"} {
		path := filepath.Join(bin, name)
		checks = append(checks,
			check{name + " is hardened", func() (string, error) { return hardened(path) }},
			check{name + " names its modules", func() (string, error) { return writeBill(path, version, path+".cdx.json") }})
	}
	checks = append(checks,
		check{"the unit", func() (string, error) { return exposure(units, "", unitLimit) }},
		check{"the unit with isolation.conf", func() (string, error) { return exposure(units, "isolation.conf", isolationLimit) }},
		check{"known vulnerabilities", func() (string, error) { return vulnerabilities(database, "./...") }},
		check{"staticcheck", staticcheck})
	failed := 0
	for _, c := range checks {
		found, err := c.look()
		switch {
		case err == nil:
			fmt.Printf("ok           %s: %s\n", c.name, found)
		case errors.Is(err, errUnchecked):
			fmt.Printf("not checked  %s: %v\n", c.name, err)
		default:
			failed++
			fmt.Printf("FAILED       %s: %v\n", c.name, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return nil
}

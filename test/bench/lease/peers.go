package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed peers.sh
var peersScript string

// programs maps each peer to its program.
var programs = map[string]string{"redis": "redis-server", "postgres": "postgres", "etcd": "etcd"}

// install installs the peers if the program of one of them is missing.
func install(ctx context.Context) error {
	for _, program := range []string{"redis-server", "postgres", "etcd"} {
		if _, err := find(program); err == nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s is missing: installing the programs that berth is compared with\n", program)
		cmd := exec.CommandContext(ctx, "sh", "-c", peersScript)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return cmd.Run()
	}
	return nil
}

// leftOut returns the peers that the benchmark leaves out: those that are not
// wanted, and those whose program is missing. It prints the latter.
func leftOut(wanted map[string]bool) (map[string]bool, error) {
	for name := range wanted {
		if programs[name] == "" {
			return nil, fmt.Errorf("%q is none of redis, postgres and etcd", name)
		}
	}
	skip := map[string]bool{}
	for name, program := range programs {
		if !wanted[name] {
			skip[name] = true
		} else if _, err := find(program); err != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", name, err)
			skip[name] = true
		}
	}
	return skip, nil
}

// find returns the path of a program. It also looks where distributions keep the
// programs of PostgreSQL: outside of PATH, in a folder for each version.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); err != nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	return path, err
}

// version returns the line that a program prints as its version.
func version(program string) string {
	path, err := find(program)
	if err != nil {
		return program + ": missing"
	}
	text, err := exec.Command(path, "--version").Output()
	if err != nil {
		return program + ": " + err.Error()
	}
	return firstLine(text)
}

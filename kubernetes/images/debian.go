package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraries are the files of the package libc6 that berth-serve and the libraries of a
// GPU's driver load, including those that look up users and hosts.
var libraries = []string{
	"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2",
	"libnss_files.so.2", "libnss_dns.so.2",
}

// debian returns the files that the daemon needs from Debian's packages libc6 and
// ca-certificates, unpacked in root.
func debian(root string) (files, error) {
	if root == "" {
		return nil, errors.New("give the folder of Debian's packages: -debian FOLDER")
	}
	f := accounts()
	f["etc/nsswitch.conf"] = file{mode: 0o644, data: []byte("passwd: files\ngroup: files\nhosts: files dns\n")}
	f["tmp/.keep"] = file{mode: 0o644}
	linkers, err := filepath.Glob(filepath.Join(root, "lib*", "ld-linux*.so.*"))
	if err != nil || len(linkers) == 0 {
		return nil, fmt.Errorf("%s has no dynamic linker: unpack the package libc6 there", root)
	}
	for _, path := range linkers { // the path of the linker is in every program
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		if err := f.add(name, path, 0o755); err != nil {
			return nil, err
		}
	}
	for _, name := range libraries {
		found, err := filepath.Glob(filepath.Join(root, "lib", "*-linux-gnu*", name))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%s has no %s: unpack the package libc6 there", root, name)
		}
		to, err := filepath.Rel(root, found[0])
		if err != nil {
			return nil, err
		}
		if err := f.add(to, found[0], 0o755); err != nil {
			return nil, err
		}
	}
	return f, errors.Join(f.certificates(root), f.licences(root))
}

// certificates adds the authorities that the daemon trusts when it calls a hook, in one
// file, as update-ca-certificates writes it.
func (f files) certificates(root string) error {
	found, err := filepath.Glob(filepath.Join(root, "usr/share/ca-certificates/*/*.crt"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("%s has no certificates: unpack the package ca-certificates there", root)
	}
	var all bytes.Buffer
	for _, path := range slices.Sorted(slices.Values(found)) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all.Write(bytes.TrimSpace(text))
		all.WriteByte('\n')
	}
	f["etc/ssl/certs/ca-certificates.crt"] = file{data: all.Bytes(), mode: 0o644}
	return nil
}

// licences adds the licences of these files.
func (f files) licences(root string) error {
	for _, name := range []string{"libc6", "ca-certificates"} {
		path := filepath.Join("usr/share/doc", name, "copyright")
		if err := f.add(path, filepath.Join(root, path), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// add reads a file from the disk. A link becomes its target.
func (f files) add(name, path string, mode int64) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f[filepath.ToSlash(name)] = file{data: data, mode: mode}
	return nil
}

// String lists the files, for messages of tests.
func (f files) String() string { return strings.Join(slices.Sorted(maps.Keys(f)), "\n") }

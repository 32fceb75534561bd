package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// part is something that others wrote and a release has in it.
type part struct {
	component
	folder string // where its licence lies
}

// writeParts writes two files about a release into a folder: berth.cdx.json, the bill of
// everything that is in it, and licences.txt, the licences of what others wrote. It
// reads the modules of Go from the binaries, the packages of the page from the lock file
// of npm. The Python package needs none.
func writeParts(folder, version string, binaries []string) error {
	cache, err := goEnv("GOMODCACHE")
	if err != nil {
		return err
	}
	root, err := goEnv("GOROOT")
	if err != nil {
		return err
	}
	lock, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		return err
	}
	parts, err := npmParts(lock, "web")
	if err != nil {
		return err
	}
	for _, binary := range binaries {
		found, err := goParts(binary, cache, root)
		if err != nil {
			return err
		}
		parts = append(parts, found...)
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.Ref, b.Ref) })
	parts = slices.CompactFunc(parts, func(a, b part) bool { return a.Ref == b.Ref })
	text, err := licences(parts)
	if err != nil {
		return err
	}
	bill, err := json.MarshalIndent(billOfParts(version, parts), "", "  ")
	return errors.Join(err, os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "berth.cdx.json"), append(bill, '\n'), 0o644),
		os.WriteFile(filepath.Join(folder, "licences.txt"), []byte(text), 0o644))
}

func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out)), err
}

// billOfParts returns the bill of a release. Its own parts are first.
func billOfParts(version string, parts []part) bill {
	own := func(kind, name, at string) component {
		return component{Type: kind, Ref: at, Name: name, Version: version, Package: at, Licences: []licence{{"Apache-2.0"}}}
	}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{own("application", "berth", "pkg:github/berth-gpu/berth@"+version)}}
	b.Components = append(b.Components, own("library", "berth-gpu", "pkg:pypi/berth-gpu@"+version))
	for _, p := range parts {
		b.Components = append(b.Components, p.component)
	}
	return b
}

// goParts returns the modules that a binary is made of, and the standard library.
func goParts(binary, cache, root string) ([]part, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return modulesOf(info, cache, root), nil
}

// modulesOf returns what others wrote of a binary. A module in a folder of the repository
// is berth's own.
func modulesOf(info *debug.BuildInfo, cache, root string) (parts []part) {
	for _, c := range billOf("", "", info, nil).Components {
		if strings.HasPrefix(c.Name, ".") || strings.HasPrefix(c.Name, "github.com/berth-gpu/berth") {
			continue
		}
		folder := filepath.Join(cache, escaped(c.Name)+"@"+c.Version)
		if c.Name == "std" {
			folder = root
		}
		parts = append(parts, part{c, folder})
	}
	return parts
}

// escaped returns the path of a module as the cache of modules has it: file systems may
// not tell capital letters apart.
func escaped(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// npmParts returns the packages that the page is made of: those of the lock file that are
// not for its builders alone.
func npmParts(lock []byte, folder string) ([]part, error) {
	var read struct {
		Packages map[string]struct {
			Version, Integrity, License string
			Dev                         bool
		}
	}
	if err := json.Unmarshal(lock, &read); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	var parts []part
	for at, p := range read.Packages {
		if at == "" || p.Dev {
			continue
		}
		name := at[strings.LastIndex(at, "node_modules/")+len("node_modules/"):]
		ref := "pkg:npm/" + strings.ReplaceAll(name, "@", "%40") + "@" + p.Version
		c := component{Type: "library", Ref: ref, Name: name, Version: p.Version, Package: ref}
		if p.License != "" {
			c.Licences = []licence{{p.License}}
		}
		if sum, found := strings.CutPrefix(p.Integrity, "sha512-"); found {
			raw, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return nil, fmt.Errorf("package-lock.json: %s: %w", name, err)
			}
			c.Hashes = []hash{{"SHA-512", hex.EncodeToString(raw)}}
		}
		parts = append(parts, part{c, filepath.Join(folder, at)})
	}
	return parts, nil
}

// licences returns the licences of all parts, each text once. Every part has to have one.
func licences(parts []part) (string, error) {
	names := map[string][]string{}
	var order []string
	for _, p := range parts {
		text, err := licenceIn(p.folder)
		if err != nil {
			return "", fmt.Errorf("%s has no licence: %w", p.Ref, err)
		}
		if names[text] == nil {
			order = append(order, text)
		}
		names[text] = append(names[text], p.Name+" "+p.Version)
	}
	var b strings.Builder
	b.WriteString("berth is under the Apache License 2.0. What others wrote, and berth has in it:\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(names[text], "\n"), text)
	}
	return b.String(), nil
}

// licenceIn returns the texts of the licence files in a folder.
func licenceIn(folder string) (string, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		if f.IsDir() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"}, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimSpace(string(text)))
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("no file in %s is called LICENSE, COPYING or NOTICE", folder)
	}
	return strings.Join(texts, "\n\n"), nil
}

package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// bill is a bill of materials in CycloneDX's format, version 1.6, as far as a
// binary tells what it is made of. It has neither a time nor a number of its own,
// so that the same binary has the same bill.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string    `json:"type"`
	Ref      string    `json:"bom-ref"`
	Name     string    `json:"name"`
	Version  string    `json:"version,omitempty"`
	Hashes   []hash    `json:"hashes,omitempty"`
	Licences []licence `json:"licenses,omitempty"`
	Package  string    `json:"purl,omitempty"`
}

type licence struct {
	Expression string `json:"expression"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// writeBill writes the bill of a binary of this version to a file.
func writeBill(binary, version, to string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("%w: run make build first", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	b := billOf(filepath.Base(binary), version, info, content)
	text, err := json.MarshalIndent(b, "", "  ")
	if err := errors.Join(err, os.WriteFile(to, append(text, '\n'), 0o644)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of them and %s, in %s", len(b.Components)-1, info.GoVersion, to), nil
}

func billOf(name, version string, info *debug.BuildInfo, content []byte) bill {
	sum := sha256.Sum256(content)
	main := componentOf("application", name, &debug.Module{Path: info.Main.Path, Version: version})
	main.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{main}}
	compiler := debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	b.Components = append(b.Components, componentOf("library", "std", &compiler))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, componentOf("library", m.Path, m))
	}
	return b
}

func componentOf(kind, name string, m *debug.Module) component {
	at := "pkg:golang/" + m.Path + "@" + m.Version
	return component{Type: kind, Ref: at, Name: name, Version: m.Version, Package: at}
}

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// nobody is the maintainer in packages that nobody else answers for. The forge takes no
// mail there.
const nobody = "The berth project <berth-gpu@users.noreply.github.com>"

// checkMaintainer refuses a maintainer that package managers would not read as a name and
// an address.
func checkMaintainer(who string) error {
	if at, err := mail.ParseAddress(who); err != nil || at.Name == "" || who != at.Name+" <"+at.Address+">" {
		return fmt.Errorf("the maintainer must be a name and an address such as %q, not %q", nobody, who)
	}
	return nil
}

// run writes the archive and both packages, and returns their paths.
func (o *options) run() (written []string, err error) {
	if err := checkMaintainer(o.maintainer); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	all, err := o.contents()
	if err != nil {
		return nil, err
	}
	archive, err := o.archive(all)
	if err != nil {
		return nil, err
	}
	inPackages, err := installed(all)
	if err != nil {
		return nil, err
	}
	debian, err := o.debian()
	if err != nil {
		return nil, err
	}
	stage, err := os.MkdirTemp("", "berth-release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(stage)
	written = append(written, archive)
	for _, kind := range []struct {
		packager interface {
			nfpm.Packager
			ConventionalFileName(*nfpm.Info) string
		}
		format string
		items  []item
	}{{deb.Default, "deb", slices.Concat(inPackages, debian)}, {rpm.DefaultRPM, "rpm", inPackages}} {
		info, err := o.info(kind.format, filepath.Join(stage, kind.format), kind.items)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(o.out, kind.packager.ConventionalFileName(info))
		var packed bytes.Buffer
		if err := kind.packager.Package(info, &packed); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.format, err)
		}
		if err := os.WriteFile(file, packed.Bytes(), 0o644); err != nil {
			return nil, err
		}
		written = append(written, file)
	}
	return written, nil
}

// archive writes the tar.gz, with everything below one folder.
func (o *options) archive(all []item) (string, error) {
	folder := fmt.Sprintf("berth-%s-linux-%s", o.version, o.arch)
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	w := tar.NewWriter(zipped)
	header := func(h tar.Header) error {
		h.ModTime, h.Format, h.Uname, h.Gname = o.created, tar.FormatPAX, "root", "root"
		return w.WriteHeader(&h)
	}
	folders := map[string]bool{}
	for _, i := range all {
		name := path.Join(folder, filepath.ToSlash(i.archived))
		var above []string
		for at := path.Dir(name); at != "." && !folders[at]; at = path.Dir(at) {
			folders[at] = true
			above = append(above, at)
		}
		for _, at := range slices.Backward(above) {
			if err := header(tar.Header{Name: at + "/", Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
				return "", err
			}
		}
		if err := header(tar.Header{Name: name, Mode: int64(i.mode), Size: int64(len(i.data)), Typeflag: tar.TypeReg}); err != nil {
			return "", err
		}
		if _, err := w.Write(i.data); err != nil {
			return "", err
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		return "", err
	}
	file := filepath.Join(o.out, folder+".tar.gz")
	return file, os.WriteFile(file, b.Bytes(), 0o644)
}

// info describes a package. nfpm reads files, so the items are written to a folder first.
func (o *options) info(format, stage string, items []item) (*nfpm.Info, error) {
	libc, err := libraryNeeded(filepath.Join(o.programs, "berth-serve"))
	if err != nil {
		return nil, err
	}
	info := &nfpm.Info{
		Name: "berth", Arch: o.arch, Platform: "linux", Version: o.packaged, VersionSchema: "none", Section: "admin", Priority: "optional",
		Maintainer: o.maintainer, Vendor: "The berth project", Homepage: "https://github.com/berth-gpu/berth", License: "Apache-2.0",
		Description: description, MTime: o.created, DisableGlobbing: true,
	}
	folder := map[string]files.ContentFileInfo{"/etc/berth": {Mode: 0o755}}
	for name, about := range folder {
		about.MTime, about.Owner, about.Group = o.created, "root", "root"
		info.Contents = append(info.Contents, &files.Content{Destination: name, Type: files.TypeDir, FileInfo: &about})
	}
	for _, i := range items {
		from := filepath.Join(stage, i.installed)
		if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o755), os.WriteFile(from, i.data, i.mode)); err != nil {
			return nil, err
		}
		to := i.installed
		if unit, found := strings.CutPrefix(to, "/lib/"); found && format == "rpm" {
			to = "/usr/lib/" + unit
		}
		if name, found := strings.CutPrefix(to, "/usr/share/zsh/vendor-completions/"); found && format == "rpm" {
			to = "/usr/share/zsh/site-functions/" + name
		}
		kind := files.TypeFile
		if i.config {
			kind = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Mode: i.mode, MTime: o.created, Owner: "root", Group: "root"},
		})
	}
	if format == "deb" {
		info.Deb.Compression = "gzip"
		info.License = "" // it is in the file copyright
		info.Depends = []string{"libc6 (>= " + libc + ")", "init-system-helpers (>= 1.54)", "systemd | systemd-standalone-sysusers"}
		err = o.scripts(filepath.Join(stage, "scripts"), "deb", &info.Scripts.PreInstall, &info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove)
	} else {
		info.Release = "1"
		info.RPM.Compression, info.RPM.BuildHost, info.RPM.Summary = "gzip", "localhost", summary
		info.Depends = []string{"glibc >= " + libc, "systemd"}
		err = o.scripts(filepath.Join(stage, "scripts"), "rpm", &info.Scripts.PreInstall, &info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove)
	}
	if err != nil {
		return nil, err
	}
	return info, nfpm.PrepareForPackager(nfpm.WithDefaults(info), format)
}

// scripts writes the scripts that a package manager runs to a folder, with what they know
// about these programs.
func (o *options) scripts(folder, format string, places ...*string) error {
	entries, err := o.entriesKnown()
	if err != nil {
		return err
	}
	names := map[string][]string{"deb": {"preinst", "postinst", "prerm", "postrm"}, "rpm": {"../deb/preinst", "post", "preun", "postun"}}[format]
	for n, place := range places {
		text, err := os.ReadFile(filepath.Join(o.repository, "deploy/release", format, names[n]))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("@ENTRIES@"), []byte(strconv.Itoa(entries)))
		*place = filepath.Join(folder, filepath.Base(names[n]))
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(*place, text, 0o755)); err != nil {
			return err
		}
	}
	return nil
}

const summary = "decides who may use which GPU, how much of it, and for how long"

const description = summary + `
berth is a daemon that knows every GPU of a machine, measures it, and hands out
leases: to pipelines, services, batch jobs and people, through one command, a
REST API, a page, a Go client and a Python package.

The daemon listens on a Unix socket and on 127.0.0.1 alone.`

// libraryNeeded returns the newest version of the C library whose functions a program calls.
func libraryNeeded(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	newest := 0
	for _, s := range symbols {
		if minor, found := strings.CutPrefix(s.Version, "GLIBC_2."); found {
			minor, _, _ = strings.Cut(minor, ".")
			if n, err := strconv.Atoi(minor); err == nil {
				newest = max(newest, n)
			}
		}
	}
	if newest == 0 {
		return "", fmt.Errorf("%s does not say which C library it needs", program)
	}
	return fmt.Sprintf("2.%d", newest), nil
}

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// item is one file of a release: where a package has it, where the archive has it, and
// what is in it. An empty place: it is not there.
type item struct {
	installed, archived string
	data                []byte
	mode                os.FileMode
	config              bool // an administrator changes it, and upgrades leave it alone
}

// source says where the content of an item comes from.
type source struct {
	from                string
	installed, archived string
	mode                os.FileMode
}

const docs = "/usr/share/doc/berth/"

// contents returns everything that a release consists of, by the places in a package.
func (o *options) contents() ([]item, error) {
	repo := func(name string) string { return filepath.Join(o.repository, name) }
	units := repo("deploy/systemd")
	list := []source{
		{filepath.Join(o.programs, "berth"), "/usr/bin/berth", "bin/berth", 0o755},
		{filepath.Join(o.programs, "berth-serve"), "/usr/bin/berth-serve", "bin/berth-serve", 0o755},
		{repo("deploy/berth.yaml"), "/etc/berth/berth.yaml", "berth.yaml", 0o600},
		{filepath.Join(units, "berth.service"), "/lib/systemd/system/berth.service", "systemd/berth.service", 0o644},
		{filepath.Join(units, "berth-front.service"), "/lib/systemd/system/berth-front.service", "systemd/berth-front.service", 0o644},
		{filepath.Join(units, "berth-front.sysusers"), "/usr/lib/sysusers.d/berth.conf", "sysusers.d/berth.conf", 0o644},
		{repo("deploy/release/berth.tmpfiles"), "/usr/lib/tmpfiles.d/berth.conf", "tmpfiles.d/berth.conf", 0o644},
		{filepath.Join(units, "credentials.conf"), docs + "examples/credentials.conf", "systemd/examples/credentials.conf", 0o644},
		{filepath.Join(o.extra, "completions/berth.bash"), "/usr/share/bash-completion/completions/berth", "completions/berth.bash", 0o644},
		{filepath.Join(o.extra, "completions/_berth"), "/usr/share/zsh/vendor-completions/_berth", "completions/_berth", 0o644},
		{filepath.Join(o.extra, "completions/berth.fish"), "/usr/share/fish/vendor_completions.d/berth.fish", "completions/berth.fish", 0o644},
		{repo("README.md"), docs + "README.md", "README.md", 0o644},
		{repo("SECURITY.md"), docs + "SECURITY.md", "SECURITY.md", 0o644},
		{repo("CHANGELOG.md"), docs + "CHANGELOG.md", "CHANGELOG.md", 0o644},
		{repo("LICENSE"), "", "LICENSE", 0o644},
		{filepath.Join(o.extra, "licences.txt"), docs + "licences.txt", "licences.txt", 0o644},
	}
	for folder, to := range map[string]source{
		filepath.Join(units, "berth.service.d"): {installed: docs + "examples/berth.service.d", archived: "systemd/examples/berth.service.d"},
		repo("deploy/prometheus"):               {installed: docs + "examples/prometheus", archived: "examples/prometheus"},
		repo("deploy/grafana"):                  {installed: docs + "examples/grafana", archived: "examples/grafana"},
		repo("docs"):                            {installed: docs + "docs", archived: "docs"},
		filepath.Join(o.extra, "man"):           {installed: "/usr/share/man/man1", archived: "man/man1"},
	} {
		found, err := below(folder, to)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	var all []item
	for _, s := range list {
		data, err := os.ReadFile(s.from)
		if err != nil {
			return nil, err
		}
		all = append(all, item{installed: s.installed, archived: s.archived, data: data, mode: s.mode, config: strings.HasPrefix(s.installed, "/etc/")})
	}
	slices.SortFunc(all, func(a, b item) int { return strings.Compare(a.archived, b.archived) })
	return all, nil
}

// below lists the files of a folder. Those of the repository that are for its builders
// stay behind.
func below(folder string, to source) (found []source, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if ext := filepath.Ext(name); err != nil || slices.Contains([]string{".go", ".sh", ".py"}, ext) || strings.HasSuffix(name, ".test.yml") {
			return err
		}
		found = append(found, source{path, filepath.Join(to.installed, name), filepath.Join(to.archived, name), 0o644})
		return nil
	})
	return found, err
}

// installed returns the items of a package: the units name the programs where the
// package has them, and pages of the manual are compressed.
func installed(all []item) (found []item, err error) {
	for _, i := range all {
		switch {
		case i.installed == "":
			continue
		case strings.HasSuffix(i.installed, ".service"):
			i.data = bytes.ReplaceAll(i.data, []byte("=/usr/local/bin/"), []byte("=/usr/bin/"))
			i.data = bytes.ReplaceAll(i.data, []byte("\nDocumentation="), []byte("\nDocumentation=man:berth(1) file:"+docs+"docs/README.md "))
		case strings.HasPrefix(i.installed, "/usr/share/man/"):
			i.installed += ".gz"
			if i.data, err = compressed(i.data); err != nil {
				return nil, err
			}
		}
		found = append(found, i)
	}
	return found, nil
}

// compressed returns a text in gzip's format, without a name and a time.
func compressed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// overrides tells Debian's lintian what is meant to be so.
const overrides = `# It starts sooner without a dynamic linker, and runs under every C library.
berth: statically-linked-binary [usr/bin/berth]
# It may hold secrets.
berth: non-standard-file-perm 0600 != 0644 [etc/berth/berth.yaml]
`

// debian returns what only Debian's package has.
func (o *options) debian() ([]item, error) {
	licence, err := os.ReadFile(filepath.Join(o.repository, "LICENSE"))
	if err != nil {
		return nil, err
	}
	if len(licence) == 0 {
		return nil, errors.New("the LICENSE is empty")
	}
	copyright := "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n" +
		"Upstream-Name: berth\nSource: https://github.com/berth-gpu/berth\n\n" +
		"Files: *\nCopyright: 2026 The berth project\nLicense: Apache-2.0\n" +
		" On Debian systems, the text of the licence is in /usr/share/common-licenses/Apache-2.0.\n" +
		" The licences of what the programs are made of are in " + docs + "licences.txt.\n"
	changes, err := compressed(fmt.Appendf(nil, "berth (%s) stable; urgency=medium\n\n  * %sCHANGELOG.md says what changed.\n\n -- %s  %s\n",
		o.packaged, docs, o.maintainer, o.created.Format(time.RFC1123Z)))
	return []item{
		{installed: "/usr/share/lintian/overrides/berth", data: []byte(overrides), mode: 0o644},
		{installed: docs + "copyright", data: []byte(copyright), mode: 0o644},
		{installed: docs + "changelog.gz", data: changes, mode: 0o644},
	}, err
}

var versionOfEntries = regexp.MustCompile(`(?m)^const Version = (\d+)$`)

// entriesKnown returns the newest version of an entry of the journal that the programs of
// this repository read.
func (o *options) entriesKnown() (int, error) {
	if o.entries > 0 {
		return o.entries, nil
	}
	file := filepath.Join(o.repository, "internal/lease/stored/entry.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	found := versionOfEntries.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%s does not say the version of entries", file)
	}
	return strconv.Atoi(string(found[1]))
}

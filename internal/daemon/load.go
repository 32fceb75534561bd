package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/when"
)

// Sources says where settings come from, in addition to the file saved at run time in the
// state folder that they name.
type Sources struct {
	File    string   // berth.yaml; empty means the first of the usual places that exists, if any
	Environ []string // as from os.Environ
	Getenv  func(string) string
	Flags   map[string]string // by field, as in daemon.listen
	Root    bool              // whether root runs the daemon, which decides the default paths
	Warn    func(string)      // called with what is unsafe but no reason to refuse; may be nil

	// Start means that a daemon is about to start with the settings. If the file saved at
	// run time is damaged, Load leaves it out, and Open reports it. What cannot be read at
	// present is not damaged: Load refuses then.
	Start bool
}

// Load reads the settings from all sources. It refuses files that others can change:
// because of hooks, a configuration is a list of commands that the daemon runs.
func Load(from Sources) (*config.Settings, error) {
	name, found, layers, err := from.layers()
	if err != nil {
		return nil, err
	}
	// Merge twice: the state folder is not known before the other sources are read, and
	// the file saved there is weaker than some of them.
	first, err := config.Merge(layers...)
	if err != nil {
		return nil, err
	}
	if secrets := first.Secrets(name); len(secrets) > 0 {
		if err := found.CheckSecret(); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(secrets, ", "), err)
		}
	}
	path := filepath.Join(first.Config.Daemon.StateDir, inventory.Saved)
	err = checkSavedFile(path, from.Warn, func(saved config.Layer) { layers = append(layers, saved) })
	switch {
	case errors.Is(err, file.ErrOthers):
		return nil, fmt.Errorf("read what was set at run time: %w", err)
	case file.Unread(err), errors.Is(err, syscall.ENOTDIR): // another time it may be read, or in another folder
		return nil, fmt.Errorf("read what was set at run time: %w (choose another place with --state-dir)", err)
	case err != nil && from.Start:
		return first, nil
	case err != nil:
		return nil, fmt.Errorf("%s holds what was set at run time with PUT /api/gpu/config, and is damaged: %w\nRemove its first line if somebody has changed it on purpose, or remove it to go back to berth.yaml; a daemon that starts does so, and keeps it", path, err)
	}
	return config.Merge(layers...)
}

// Check returns everything for which a daemon would refuse to start with settings, and
// what is wrong with their rules. Root checks for a daemon of root; another user also for
// one of their own, and leaves out files that they may not read.
func Check(s *config.Settings, warn func(string)) error {
	own := os.Geteuid()
	programs := checkPrograms(s, 0, "root")
	if own != 0 && checkPrograms(s, own, nameOf(users.New(users.Lookup, nameLimit), own)) == nil {
		programs = nil
	}
	c := s.Config
	_, token := readToken(c.Daemon, warn)
	_, shown := readCertificate(c.Daemon, warn)
	_, cluster := readIssued(c.Daemon, "", warn)
	_, rules := rulesOf(c, warn)
	var wrong []error
	for _, err := range []error{programs, token, shown, cluster, rules} {
		if err != nil && (own == 0 || !errors.Is(err, fs.ErrPermission)) {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// checkSavedFile reads the settings made at run time, if there are any.
func checkSavedFile(path string, warn func(string), take func(config.Layer)) error {
	found, err := file.ReadTrusted(path, warn)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := file.Unseal(path, found.Text)
	if err != nil {
		return err
	}
	saved, err := config.ParseKnown(path, text)
	if err == nil {
		take(saved)
	}
	return err
}

// checkSaved sets the file saved at run time aside if it is damaged. The settings were
// read without it. It tells which of them this version leaves out.
func (d *Daemon) checkSaved(o Options) {
	path := o.state(inventory.Saved)
	err := checkSavedFile(path, nil, func(config.Layer) {})
	if unknown := o.Settings.Unknown(); unknown != nil {
		d.publish(gpu.Event{
			Time: when.Now(), Code: gpu.EventConfig, Severity: gpu.Serious,
			Text: gpu.Printable(fmt.Sprintf("Settings that were made at run time do not hold: this version of berth does not know them (%v). They stay in the file for a version that does. "+
				"A user or a group whose entry has one may only look, and a service whose users are among them is root's, until then, or until an administrator clears the entry.", &config.Error{Complaints: unknown}), 1024),
			Public: "Settings that were made at run time do not hold: this version of berth does not know them.",
		})
	}
	switch {
	case file.Unread(err):
		d.tellDamage(&file.Damage{Path: path, Err: err, Unread: true})
	case err != nil:
		d.tellDamage(file.SetAside(path, "What was set at run time does not hold: the daemon runs with berth.yaml alone. Look at the file, and set again what is missing.", nil, err))
	}
}

// layers reads every source. It keeps the errors of a source in its layer, so that Merge
// can report all of them at once.
func (from Sources) layers() (name string, found *file.Trusted, layers []config.Layer, err error) {
	name, found, err = from.readFile()
	if err != nil {
		return "", nil, nil, err
	}
	read, _ := config.ParseYAML(name, found.Text)
	env, _ := config.ParseEnv(from.Environ)
	flags, _ := config.Flags(from.Flags)
	return name, found, []config.Layer{config.Paths(config.DefaultPaths(from.Root, from.Getenv)), read, env, flags}, nil
}

// readFile reads the named file, or the first of the usual files that exists. A missing
// file counts as empty.
func (from Sources) readFile() (name string, found *file.Trusted, err error) {
	if from.File != "" {
		found, err = file.ReadTrusted(from.File, from.Warn)
		if err != nil {
			return "", nil, fmt.Errorf("read the configuration: %w", err)
		}
		return from.File, found, nil
	}
	for _, path := range from.usual() {
		found, err = file.ReadTrusted(path, from.Warn)
		if err == nil {
			return path, found, nil
		}
		// The file of the machine may hold secrets, and then it is closed to ordinary
		// users, who go without it.
		if closed := errors.Is(err, fs.ErrPermission) && !from.Root; !closed && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, fmt.Errorf("read the configuration: %w", err)
		}
	}
	return "berth.yaml", &file.Trusted{}, nil
}

func (from Sources) usual() []string {
	const machine = "/etc/berth/berth.yaml"
	if from.Root {
		return []string{machine}
	}
	base := from.Getenv("XDG_CONFIG_HOME")
	if base == "" {
		base = filepath.Join(from.Getenv("HOME"), ".config")
	}
	return []string{filepath.Join(base, "berth/berth.yaml"), machine}
}

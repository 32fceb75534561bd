package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// settings keeps the configuration in force, and nothing else changes it. Reading takes
// no lock, so a change that waits for the disk holds nobody up.
type settings struct {
	current atomic.Pointer[config.Settings]
	daemon  *Daemon // gets every change
	path    string
	write   func(path string, text []byte) error
	reread  func() (*config.Settings, error) // reads the sources again; nil if there are none

	changing turn // held while settings come into force, one after another
}

// newSettings returns the settings that a daemon starts with. It saves changes in the
// state folder.
func newSettings(first *config.Settings, d *Daemon, reread func() (*config.Settings, error)) *settings {
	s := &settings{daemon: d, path: filepath.Join(first.Config.Daemon.StateDir, inventory.Saved), write: file.Replace, reread: reread, changing: make(turn, 1)}
	s.current.Store(first)
	return s
}

// turn is a lock whose holder may wait, as for the user database.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

func (s *settings) load() *config.Settings { return s.current.Load() }

// config returns the configuration in force.
func (s *settings) config() *config.Config { return &s.load().Config }

// GPU returns the settings that can change at run time, without hooks.
func (s *settings) GPU() api.GPUConfig {
	var wire api.GPUConfig
	text, err := s.load().Config.Changeable()
	if err == nil {
		err = json.Unmarshal(text, &wire)
	}
	if err != nil {
		panic(err) // a test keeps the two shapes together
	}
	return wire
}

// Fields returns every setting and its source.
func (s *settings) Fields() []api.ConfigField {
	var fields []api.ConfigField
	for _, f := range s.load().All() {
		fields = append(fields, fieldOf(f))
	}
	return fields
}

func fieldOf(f config.Setting) api.ConfigField {
	return api.ConfigField{Field: f.Name, Value: f.Value, Unit: f.Unit, Source: f.Source, Doc: f.Doc}
}

// Change validates the new settings as a whole, saves them, and only then puts them into
// force.
func (s *settings) Change(_ context.Context, by access.Actor, body []byte) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.load()
	next, saved, err := before.Change(body)
	if err != nil {
		return err
	}
	if err := mayChange(by, before.Differences(next), body); err != nil {
		return err
	}
	if err := mayRun(by, before, next); err != nil {
		return err
	}
	if err := s.daemon.checkPrograms(next); err != nil {
		return err
	}
	hold, err := s.daemon.readRules(before.Config, next.Config, false)
	if err != nil {
		return &config.Error{Complaints: []config.Complaint{{Field: "alerts.rules", Reason: err.Error()}}}
	}
	act := settingsAct(by, before, next)
	if len(act.Before)+len(act.After) > 0 {
		if err := s.daemon.audit.Record(act); err != nil {
			return err
		}
	}
	if err := s.write(s.path, saved); err != nil {
		err = fmt.Errorf("keep the change across restarts: %w", err)
		act.Outcome, act.Why = audit.Failed, err.Error()
		_ = s.daemon.audit.Record(act) // nothing was changed, whether or not the log says so
		return err
	}
	s.current.Store(next)
	s.daemon.configure(next.Config, by, differences(before, next))
	hold()
	return nil
}

// asked returns those differences that a request names, or else all. A new entry has more settings,
// with the values that they have where nobody sets them.
func asked(body []byte, all []config.Difference) []config.Difference {
	var tree any
	if json.Unmarshal(body, &tree) != nil {
		return all
	}
	var names []string
	var walk func(name string, v any)
	walk = func(name string, v any) {
		below, is := v.(map[string]any)
		if !is {
			names = append(names, name)
		}
		for key, value := range below {
			walk(strings.TrimPrefix(name+"."+key, "."), value)
		}
	}
	walk("", tree)
	named := slices.DeleteFunc(slices.Clone(all), func(d config.Difference) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return d.Name == name || strings.HasPrefix(d.Name, name+".") })
	})
	if len(named) == 0 {
		return all
	}
	return named
}

// mayChange refuses a change of settings that need a higher role than the actor has. It
// names those of them that the request names.
func mayChange(by access.Actor, changed []config.Difference, body []byte) error {
	refused := access.May(by, access.Govern, access.Object{})
	if refused == nil {
		return nil
	}
	wrong := slices.DeleteFunc(slices.Clone(changed), func(d config.Difference) bool { return d.Role == access.Operator.String() })
	if len(wrong) == 0 {
		return nil
	}
	var names []string
	for _, d := range asked(body, wrong) {
		names = append(names, d.Name)
	}
	return fmt.Errorf("%s: %w", strings.Join(names, ", "), refused)
}

// mayRun refuses a change of what the daemon runs, and of which files it reads, by an actor with a token or over TCP:
// what is shown to the API must not become a shell of the daemon's user. Administrators on the Unix socket, whom the
// kernel names, change it.
func mayRun(by access.Actor, before, after *config.Settings) error {
	if by.Token == "" && by.Door != access.TCP {
		return nil
	}
	var wrong []config.Complaint
	for _, d := range before.Differences(after) {
		if removed := d.Is == "" && strings.HasPrefix(d.Name, "hooks."); d.Set == "socket" && !removed {
			wrong = append(wrong, config.Complaint{Field: d.Name, Reason: "says what the daemon runs or reads: set it in berth.yaml, or on the Unix socket as an administrator and without a token"})
		}
	}
	if wrong != nil {
		return &config.Error{Complaints: wrong}
	}
	return nil
}

// Reload puts into force what the sources say now, wholly or not at all, and returns what
// changed. The section daemon cannot change while the daemon runs: if it differs, Reload
// changes nothing and names the settings that differ.
func (s *settings) Reload(by access.Actor) (api.ConfigReload, error) {
	done, err := s.reload(by)
	if err != nil {
		s.daemon.tellRefusedReload(by, err)
	}
	return done, err
}

func (s *settings) reload(by access.Actor) (api.ConfigReload, error) {
	if s.reread == nil {
		return api.ConfigReload{}, errors.New("this daemon cannot read its configuration again: restart it")
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	next, err := s.reread()
	if err != nil {
		return api.ConfigReload{}, err
	}
	before := s.load()
	changed := differences(before, next)
	renew, err := s.daemon.renew(next.Config.Daemon)
	if err != nil {
		return api.ConfigReload{}, fmt.Errorf("nothing was changed: %w", err)
	}
	if before.Config.Daemon != next.Config.Daemon {
		own := slices.DeleteFunc(changed, func(text string) bool { return !strings.HasPrefix(text, "daemon.") })
		return api.ConfigReload{}, fmt.Errorf("nothing was changed, because %s needs a restart of the daemon", cmp.Or(strings.Join(own, ", "), "daemon.token"))
	}
	if err := s.daemon.checkPrograms(next); err != nil {
		return api.ConfigReload{}, err
	}
	hold, err := s.daemon.readRules(before.Config, next.Config, true)
	if err != nil {
		return api.ConfigReload{}, fmt.Errorf("nothing was changed: %w", err)
	}
	act := settingsAct(by, before, next)
	act.Why = "the configuration was read again"
	if err := s.daemon.audit.Record(act); err != nil {
		return api.ConfigReload{}, err
	}
	changed = append(changed, renew()...)
	s.current.Store(next)
	s.daemon.configure(next.Config, by, changed)
	hold()
	done := api.ConfigReload{Changed: append([]string{}, changed...), Overridden: []api.ConfigOverride{}}
	for _, o := range next.Overridden() {
		done.Overridden = append(done.Overridden, api.ConfigOverride{ConfigField: fieldOf(o.Setting), InFile: o.InFile, File: o.File, AtRunTime: o.AtRunTime})
	}
	return done, nil
}

// namesSomebody reports whether a difference names a user, a group or a hook, or what the
// daemon runs, which not everybody may see.
func namesSomebody(difference string) bool {
	section, _, _ := strings.Cut(difference, ".")
	name, _, _ := strings.Cut(difference, " ")
	return slices.Contains([]string{"users", "groups", "hooks"}, section) || config.Private(name)
}

// settingsAct returns the audit entry for a change. Of a secret it says only that it
// changed.
func settingsAct(by access.Actor, before, after *config.Settings) api.AuditEntry {
	act := api.AuditEntry{
		Who: audit.Who(by), What: access.Configure.String(), Object: api.AuditObject{Kind: "settings"}, Outcome: audit.Done,
		Before: map[string]string{}, After: map[string]string{},
	}
	is := map[string]string{}
	for _, f := range after.All() {
		is[f.Name] = f.Value
	}
	for _, f := range before.All() {
		value, there := is[f.Name]
		if !there || value != f.Value {
			act.Before[f.Name], act.After[f.Name] = f.Value, said(value)
		}
		delete(is, f.Name)
	}
	for name, value := range is {
		act.Before[name], act.After[name] = said(""), value
	}
	for _, d := range before.Differences(after) {
		if hidden(d) {
			act.Before[d.Name], act.After[d.Name] = "set", "set to another one"
		}
	}
	return act
}

// differences lists the settings that differ, as "gpu.temp_optimal = 61 (was 65)". Of
// hooks it lists only the names, because their settings hold secrets.
func differences(before, after *config.Settings) []string {
	was := map[string]string{}
	for _, f := range before.All() {
		if !ofHook(f) {
			was[f.Name] = f.Value
		}
	}
	list := hookDifferences(before.Config.Hooks, after.Config.Hooks)
	for _, f := range after.All() {
		if ofHook(f) {
			continue
		}
		old, there := was[f.Name]
		delete(was, f.Name)
		if !there || old != f.Value {
			list = append(list, fmt.Sprintf("%s = %s (was %s)", f.Name, said(f.Value), said(old)))
		}
	}
	for name, old := range was { // for devices that have no settings any more
		list = append(list, fmt.Sprintf("%s is not set (was %s)", name, said(old)))
	}
	for _, d := range before.Differences(after) {
		if hidden(d) && !strings.HasPrefix(d.Name, "hooks.") {
			list = append(list, d.Name+" has changed")
		}
	}
	slices.Sort(list)
	return list
}

// hidden reports whether a setting that differs is a secret, which reads as before.
func hidden(d config.Difference) bool { return d.Was == "set" && d.Is == "changed" }

func ofHook(s config.Setting) bool { return strings.HasPrefix(s.Name, "hooks.") }

// hookDifferences lists the hooks that were added, removed or changed.
func hookDifferences(before, after map[string]config.Hook) []string {
	var list []string
	for name, h := range after {
		switch old, there := before[name]; {
		case !there:
			list = append(list, "hooks."+name+" is new")
		case !reflect.DeepEqual(old, h):
			list = append(list, "hooks."+name+" is changed")
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			list = append(list, "hooks."+name+" is removed")
		}
	}
	return list
}

func said(value string) string { return cmp.Or(value, "not set") }

package config

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// fromLater is what a later version has saved: with a limit, a role, a setting and a section
// that this one does not know.
const fromLater = `gpu:
    temp_optimal: 61
    shine: 3
users:
    ada:
        role: admin
        dreams: 7
    bob:
        role: emperor
        memory_mb: 0
    eve:
        memory_mb: 1024
groups:
    lab:
        slots: 4
        dreams: 1
weather:
    rain: true
`

func TestSettingsOfALaterVersion(t *testing.T) {
	layer, unknown, err := ParseKnown("config.yaml", []byte(fromLater))
	if err != nil || len(unknown) != 5 {
		t.Fatalf("%v, %v", unknown, err)
	}
	s, err := Merge(layer)
	if err != nil {
		t.Fatal(err)
	}
	if s.Config.GPU.TempOptimal != 61 {
		t.Errorf("what is known does not hold: %v", s.Config.GPU.TempOptimal)
	}
	for name, u := range map[string]User{"ada": s.Config.Users["ada"], "bob": s.Config.Users["bob"], "lab": {Role: s.Config.Groups["lab"].Role, Limits: s.Config.Groups["lab"].Limits}} {
		if leases, limited := u.Leases.Get(); u.Role != "viewer" || !limited || leases != 0 {
			t.Errorf("%s is not closed: %+v", name, u)
		}
	}
	if eve := s.Config.Users["eve"]; eve.Role != "" || eve.Leases.Known() || eve.Memory.Or(0) != 1024 {
		t.Errorf("eve's entry is understood, and is %+v", eve)
	}

	// A change keeps what is not known, and what closes an entry is not saved.
	_, text, err := s.Change([]byte(`{"temp_optimal": 62}`))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(fromLater, "61", "62", 1)
	if got := strings.TrimPrefix(string(text), savedHeader); !sameYAML(t, got, want) {
		t.Errorf("saved is\n%s", got)
	}

	// Whoever clears an entry opens it again.
	next, text, err := s.Change([]byte(`{"users": {"ada": null}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, there := next.Config.Users["ada"]; there || strings.Contains(string(text), "ada") || !strings.Contains(string(text), "emperor") {
		t.Errorf("after it was cleared:\n%s", text)
	}

	for _, text := range []string{"{", "- a", "gpu: ["} {
		if _, _, err := ParseKnown("config.yaml", []byte(text)); err == nil {
			t.Errorf("%q is no settings, and was read", text)
		}
	}
}

func sameYAML(t *testing.T, a, b string) bool {
	t.Helper()
	var trees [2]any
	for i, text := range []string{a, b} {
		if err := yaml.Unmarshal([]byte(text), &trees[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(trees[0], trees[1])
}

package config

import (
	"fmt"
	"reflect"
	"slices"
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
	layer, err := ParseKnown("config.yaml", []byte(fromLater))
	if err != nil || len(layer.unknown) != 5 {
		t.Fatalf("%v, %v", layer.unknown, err)
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
		if _, err := ParseKnown("config.yaml", []byte(text)); err == nil {
			t.Errorf("%q is no settings, and was read", text)
		}
	}
}

// What is left of an entry may be wrong without what this version does not know of it, and
// there may be more of it than anybody reads.
func TestALaterVersionHasMore(t *testing.T) {
	text := `hooks: {page: {kafka: abc}}
services: {y: {image: foo, port: 8081}, z: {users: ["@lab"]}}
users:
    oidc:bob: {role: viewer}
    ada: {role: admin}
`
	for i := range maxComplaints {
		text += fmt.Sprintf("    u%d: {dreams: 1, role: admin}\n", i)
	}
	layer, err := ParseKnown("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Merge(layer)
	if err != nil {
		t.Fatal(err)
	}
	if y, z := s.Config.Services["y"], s.Config.Services["z"]; y.Port.Known() || !slices.Equal(z.Users, []string{"root"}) {
		t.Errorf("the port of y is %v, and the users of z are %v", y.Port, z.Users)
	}
	for i := range maxComplaints {
		if role := s.Config.Users[fmt.Sprintf("u%d", i)].Role; role != "viewer" {
			t.Errorf("u%d is %s", i, role)
		}
	}
	if role := s.Config.Users["ada"].Role; role != "admin" {
		t.Errorf("ada is understood, and is %s", role)
	}
	_, saved, err := s.Change([]byte(`{"users": {"ada": null}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(text, "    ada: {role: admin}\n", "", 1); !sameYAML(t, string(saved), want) {
		t.Errorf("after ada was cleared:\n%s", saved)
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

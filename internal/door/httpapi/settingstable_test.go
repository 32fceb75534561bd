package httpapi

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/config"
)

// The structs of package config are the one table of settings. GPUConfig, and GPUChange
// which is made of it, have exactly the settings of it that can be shown and changed at run time, each with
// its type and its words.
func TestSettingsAreThoseOfTheTable(t *testing.T) {
	schemas := open(t, "").api.OpenAPI().Components.Schemas
	for form, without := range map[string][]string{"GPUConfig": {"daemon", "users", "groups", "hooks"}, "GPUChange": {"daemon", "users", "groups"}} {
		found := map[string]*huma.Schema{}
		collect(schemas, schemas.Map()[form], "", found)
		table := map[string]config.Field{}
		for _, f := range config.Describe() {
			if section, _, _ := strings.Cut(f.Name, "."); !slices.Contains(without, section) {
				table[strings.TrimPrefix(f.Name, "gpu.")] = f
			}
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			f, listed := table[strings.TrimPrefix(name, "devices.NAME.")] // those of a device are those of the section
			if !listed {
				t.Errorf("%s has %s, which is no setting", form, name)
				continue
			}
			sameSetting(t, form+"."+name, f, found[name])
		}
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if found[name] == nil {
				t.Errorf("%s lacks the setting %s", form, name)
			}
		}
	}
}

// collect lists the settings that a schema describes, with NAME for the names in a map.
func collect(schemas huma.Registry, s *huma.Schema, path string, into map[string]*huma.Schema) {
	if s.Ref != "" {
		s = schemas.SchemaFromRef(s.Ref)
	}
	for name, property := range s.Properties {
		within, at := property, path+name
		if within.Ref != "" {
			within = schemas.SchemaFromRef(within.Ref)
		}
		entries, isMap := within.AdditionalProperties.(*huma.Schema)
		switch {
		case isMap && entries.Properties == nil && entries.Ref == "":
			into[at] = &huma.Schema{Type: huma.TypeString} // the setting is a map
		case isMap:
			collect(schemas, entries, at+".NAME.", into)
		case within.Type == huma.TypeObject:
			collect(schemas, within, at+".", into)
		default:
			into[at] = within
		}
	}
}

func sameSetting(t *testing.T, name string, f config.Field, s *huma.Schema) {
	t.Helper()
	words := make([]string, len(s.Enum))
	for i, word := range s.Enum {
		words[i] = word.(string)
	}
	switch {
	case len(words) > 0:
		if got := strings.Join(words, ", "); got != f.Range {
			t.Errorf("%s takes %s, and the table says %s", name, got, f.Range)
		}
	case s.Type == huma.TypeInteger || s.Type == huma.TypeNumber:
		if f.Range == "" && f.Unit == "" {
			t.Errorf("%s is a %s, and the table knows no range and no unit of it", name, s.Type)
		}
	case f.Unit != "" || f.Range != "":
		t.Errorf("%s is a %s without words, and the table says %s %s", name, s.Type, f.Range, f.Unit)
	}
}
